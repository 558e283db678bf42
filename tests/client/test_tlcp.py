"""The client's protocol state. Specification: TLCP chapter 1 ("Session Recovery"), 2 (responses), 3 (notifications)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import ProtocolError
from penstock.client.events import (
    ClientAddress,
    ClientEvent,
    Configured,
    Constrained,
    Ended,
    EndOfSnapshot,
    Looped,
    MessageDone,
    MessageFailed,
    Overflow,
    Probe,
    PushNotice,
    Recovering,
    RequestDone,
    RequestFailed,
    ServerNamed,
    SessionBound,
    SessionOpened,
    SessionRefused,
    SnapshotCleared,
    SocketReady,
    Subscribed,
    Synchronized,
    Unsubscribed,
    Update,
)
from penstock.client.tlcp import DATA_TAGS, MAX_LINE_BYTES, ClientState
from penstock.wire.tlcp.version import NEWEST, Version

HEAD = b"CONOK,S1,50000,5000,*\r\n"
SUBSCRIBED = "SUBOK,1,2,3"


def opened(version: Version = NEWEST) -> ClientState:
    """A state with a session, and a subscription of two items and three fields."""
    state = ClientState(version)
    state.create_session()
    state.receive_data(HEAD)
    state.subscribe("a b", "x y z", snapshot=True)
    state.receive_line(SUBSCRIBED)
    return state


CASES: list[tuple[str, ClientEvent | None]] = [
    ("CONERR,2,No such set%2C sorry", SessionRefused(2, "No such set, sorry")),
    ("END,48,over", Ended(48, "over")),
    ("END,-3,", Ended(-3, "")),
    ("LOOP,0", Looped(0)),
    ("LOOP,5000", Looped(5_000)),
    ("CONS,unlimited", Constrained(None, True)),
    ("CONS,unmanaged", Constrained(None, False)),
    ("CONS,50.5", Constrained(50.5, True)),
    ("SYNC,120", Synchronized(120)),
    ("SERVNAME,Penstock%2C the server", ServerNamed("Penstock, the server")),
    ("CLIENTIP,::1", ClientAddress("::1")),
    ("PROBE", Probe()),
    ("WSOK", SocketReady()),
    ("NOOP,sending placeholder data", None),
    ("", None),
    ("FUTURE,1,2,3", None),
    ("REQOK,7", RequestDone("7")),
    ("REQOK", RequestDone(None)),
    ("REQERR,7,19,Subscription 3%25 not found", RequestFailed("7", 19, "Subscription 3% not found")),
    ("ERROR,67,Malformed", RequestFailed(None, 67, "Malformed")),
    ("SUBOK,2,1,10", Subscribed(2, 1, 10)),
    ("SUBCMD,2,1,10,1,2", Subscribed(2, 1, 10, 1, 2)),
    ("UNSUB,1", Unsubscribed(1)),
    ("EOS,1,2", EndOfSnapshot(1, 2)),
    ("CS,1,2", SnapshotCleared(1, 2)),
    ("OV,1,2,5", Overflow(1, 2, 5)),
    ("CONF,1,3.0,filtered", Configured(1, 3.0, True)),
    ("CONF,1,unlimited,unfiltered", Configured(1, None, False)),
    ("MSGDONE,*,3,", MessageDone(None, 3, "")),
    ("MSGDONE,Orders,3,yes%2C done", MessageDone("Orders", 3, "yes, done")),
    ("MSGFAIL,Orders,4,39,2", MessageFailed("Orders", 4, 39, "2")),
    ("U,1,1,a|#|$", Update(1, 1, ("a", None, ""), (0, 1, 2), True)),
    ("U,1,2,%23|a,b%7C|\u00e9\U0001f600", Update(1, 2, ("#", "a,b|", "\u00e9\U0001f600"), (0, 1, 2), True)),
    ("MPNREG,id,ADAPTER", PushNotice("MPNREG", ("id", "ADAPTER"))),
    ("MPNZERO,id", PushNotice("MPNZERO", ("id",))),
    ("MPNOK,3,id", PushNotice("MPNOK", ("3", "id"))),
    ("MPNCONF,id", PushNotice("MPNCONF", ("id",))),
    ("MPNDEL,id", PushNotice("MPNDEL", ("id",))),
]

EVERY_CASE = pytest.mark.parametrize(("line", "event"), CASES, ids=[line[:24] or "empty" for line, _ in CASES])


@EVERY_CASE
def test_a_line_becomes_its_event(line: str, event: ClientEvent | None) -> None:
    assert opened().receive_line(line) == event


@EVERY_CASE
def test_a_line_that_comes_byte_by_byte_becomes_its_event_with_the_last(line: str, event: ClientEvent | None) -> None:
    state = opened()
    data = f"{line}\r\n".encode()
    for position in range(len(data) - 1):
        assert state.receive_data(data[position : position + 1]) == []
    assert state.receive_data(data[-1:]) == ([] if event is None else [event])


@EVERY_CASE
def test_what_follows_a_line_is_kept_for_later(line: str, event: ClientEvent | None) -> None:
    state = opened()
    expected = [] if event is None else [event]
    assert state.receive_data(f"{line}\r\nPRO".encode()) == expected
    assert state.receive_data(b"BE\r\n") == [Probe()]


@EVERY_CASE
def test_exactly_the_data_notifications_are_counted(line: str, event: ClientEvent | None) -> None:
    state = opened()
    before = state.received
    state.receive_line(line)
    assert state.received - before == (line.split(",")[0] in DATA_TAGS)


def test_the_counted_tags_are_those_of_the_specification() -> None:
    assert {line.split(",")[0] for line, _ in CASES} >= DATA_TAGS
    assert len(DATA_TAGS) == 15


@pytest.mark.parametrize(
    "line",
    [
        "CONOK,S1,50000",
        "CONOK,S2,50000,5000,*",
        "CONOK,S1,many,5000,*",
        "CONERR,x,y",
        "LOOP",
        "LOOP,soon",
        "PROG,4",
        "PROG,-",
        "CONS,fast",
        "CONS,1e3",
        "CONS,nan",
        "PROBE,1",
        "SYNC," + "9" * 5_000,
        "SUBOK,1,2,3",
        "SUBOK,2,1,0",
        "SUBOK,2,1",
        "SUBCMD,2,1,3",
        "UNSUB,9",
        "EOS,1,3",
        "EOS,1,0",
        "OV,1,1",
        "CONF,1,unlimited,maybe",
        "CONF,9,unlimited,filtered",
        "MSGDONE,*,1",
        "MSGFAIL,*,1,34",
        "U",
        "U,1",
        "U,1,1",
        "U,x,1,a|b|c",
        "U,9,1,a|b|c",
        "U,1,3,a|b|c",
        "U,1,1,a|b",
        "U,1,1,a|b|c|d",
        "U,1,1,a||c",
        "U,1,1,^3",
        "U,1,1,^" + "9" * 5_000,
        "U,1,1,^Qx|b|c",
        "U,1,1,%FF|b|c",
        "REQERR,1,2",
        "REQERR,1,x,text",
    ],
)
def test_a_line_that_cannot_be_understood_is_a_protocol_error_that_shows_it(line: str) -> None:
    state = opened()
    before = state.received
    with pytest.raises(ProtocolError) as caught:
        state.receive_line(line)
    assert repr(line[:80])[1:-1] in str(caught.value)
    assert state.received == before


@given(st.one_of(st.binary(max_size=60), st.sampled_from(CASES).map(lambda case: case[0].encode())), st.binary())
def test_whatever_a_server_sends_nothing_but_a_protocol_error_comes_out(data: bytes, more: bytes) -> None:
    state = opened()
    with contextlib.suppress(ProtocolError):
        state.receive_data(data + b"," + more + b"\r\n")


@given(st.sampled_from(sorted(DATA_TAGS)), st.text(max_size=30))
def test_whatever_the_arguments_are_nothing_but_a_protocol_error_comes_out(tag: str, rest: str) -> None:
    with contextlib.suppress(ProtocolError):
        opened().receive_line(f"{tag},{rest}")


def test_bytes_that_are_not_utf_8_and_lines_without_end_are_protocol_errors() -> None:
    with pytest.raises(ProtocolError, match="not UTF-8"):
        opened().receive_data(b"SERVNAME,\xff\r\n")
    state = opened()
    state.receive_data(b"x" * MAX_LINE_BYTES)
    with pytest.raises(ProtocolError, match="more than 16777216 bytes"):
        state.receive_data(b"x")


def test_before_version_2_5_a_message_has_no_response() -> None:
    assert opened(Version(2, 4)).receive_line("MSGDONE,*,3") == MessageDone(None, 3, "")
    with pytest.raises(ProtocolError):
        opened(Version(2, 4)).receive_line("MSGDONE,*,3,")


# -- values -----------------------------------------------------------------------------------------------------------


def test_the_examples_of_chapter_3_give_the_values_of_its_tables() -> None:
    state = ClientState()
    state.create_session()
    state.receive_data(HEAD)
    state.receive_line("SUBOK,3,1,10")
    expected = [
        ("20:00:33|3.04|0.0|2.41|3.67|3.03|3.04|#|#|$", "20:00:33 3.04 0.0 2.41 3.67 3.03 3.04 - - "),
        ("20:00:54|3.07|0.98|||3.06|3.07|||Suspended", "20:00:54 3.07 0.98 2.41 3.67 3.06 3.07 - - Suspended"),
        ("20:04:16|3.02|-0.65|||3.01|3.02|||$", "20:04:16 3.02 -0.65 2.41 3.67 3.01 3.02 - - "),
        ("20:04:40|^4|3.02|3.03|||", "20:04:40 3.02 -0.65 2.41 3.67 3.02 3.03 - - "),
        ("20:06:10|3.05|0.32|^7", "20:06:10 3.05 0.32 2.41 3.67 3.02 3.03 - - "),
        ("20:06:49|3.08|1.31|||3.08|3.09|||", "20:06:49 3.08 1.31 2.41 3.67 3.08 3.09 - - "),
    ]
    changes = [tuple(range(10)), (0, 1, 2, 5, 6, 9), (0, 1, 2, 5, 6, 9), (0, 5, 6), (0, 1, 2), (0, 1, 2, 5, 6)]
    for (text, values), changed in zip(expected, changes, strict=True):
        event = state.receive_line(f"U,3,1,{text}")
        assert isinstance(event, Update)
        assert event.values == tuple(None if value == "-" else value for value in values.split(" "))
        assert event.changed == changed
        assert state.subscriptions[3].values == {1: event.values}


def test_items_are_rebuilt_each_for_itself() -> None:
    state = opened()
    state.receive_line("U,1,1,a|b|c")
    state.receive_line("U,1,2,d|e|f")
    state.receive_line("U,1,1,||C")
    state.receive_line("U,1,2,D|^2")
    assert state.subscriptions[1].values == {1: ("a", "b", "C"), 2: ("D", "e", "f")}


@pytest.mark.parametrize(
    ("mode", "snapshot", "flags"),
    [
        ("RAW", True, [False, False, False]),
        ("MERGE", False, [False, False, False]),
        ("MERGE", True, [True, False, False]),
        ("DISTINCT", False, [False, False, False]),
        ("DISTINCT", True, [True, True, False]),
        ("DISTINCT", 5, [True, True, False]),
        ("COMMAND", True, [True, True, False]),
    ],
)
def test_an_update_belongs_to_the_snapshot_as_the_table_of_chapter_3_says(
    mode: str, snapshot: bool | int, flags: list[bool]
) -> None:
    state = ClientState()
    state.create_session()
    state.receive_data(HEAD)
    state.subscribe("a", "x", mode=mode, snapshot=snapshot)
    state.receive_line("SUBOK,1,1,1")
    found = [state.receive_line("U,1,1,1"), state.receive_line("U,1,1,2")]
    if mode in ("DISTINCT", "COMMAND"):
        state.receive_line("EOS,1,1")
    found.append(state.receive_line("U,1,1,3"))
    assert [event.is_snapshot for event in found if isinstance(event, Update)] == flags


def test_a_subscription_that_was_asked_for_on_another_way_is_taken_as_it_comes() -> None:
    state = opened()
    assert state.receive_line("SUBOK,7,1,1") == Subscribed(7, 1, 1)
    assert state.receive_line("U,7,1,x") == Update(7, 1, ("x",), (0,), False)


def test_a_refused_subscription_is_forgotten_but_not_one_that_exists() -> None:
    state = opened()
    number, request = state.subscribe("c", "x")
    assert number in state.subscriptions
    state.receive_line(f"REQERR,{request.request_id},21,No such item")
    assert number not in state.subscriptions
    number, request = state.subscribe("d", "x")
    state.receive_line(f"SUBOK,{number},1,1")
    state.receive_line(f"REQERR,{request.request_id},65,Sent twice")
    assert state.subscriptions[number].is_active


def test_nothing_is_left_of_a_subscription_that_has_ended() -> None:
    state = opened()
    state.receive_line("U,1,1,a|b|c")
    state.receive_line("UNSUB,1")
    assert state.subscriptions == {}
    with pytest.raises(ProtocolError):
        state.receive_line("U,1,1,||d")


# -- sessions and recovery --------------------------------------------------------------------------------------------


def test_conok_tells_a_new_session_from_one_that_is_bound_again() -> None:
    state = ClientState()
    state.create_session()
    assert state.receive_data(HEAD) == [SessionOpened("S1", 50_000, 5_000, None)]
    state.bind_session()
    assert state.receive_data(b"CONOK,S1,50000,3000,push.example:81\r\n") == [
        SessionBound("S1", 50_000, 3_000, "push.example:81")
    ]
    assert (state.keepalive_millis, state.control_link) == (3_000, "push.example:81")


def test_after_loop_nothing_is_missing_and_after_anything_else_recovery_is_asked_for() -> None:
    state = opened()
    state.receive_line("LOOP,0")
    assert state.is_looped
    assert state.bind_session().line == "LS_session=S1"
    assert state.bind_session().line == "LS_session=S1&LS_recovery_from=1"
    assert state.bind_session(recovery_from=0).line == "LS_session=S1&LS_recovery_from=0"


def test_what_the_server_repeats_is_left_out_and_not_counted() -> None:
    state = opened()
    for text in ("U,1,1,a|b|c", "U,1,1,|B|"):
        state.receive_line(text)
    assert state.received == 3
    state.bind_session(recovery_from=1)
    events = state.receive_data(
        HEAD + b"CONS,unlimited\r\nPROG,1\r\nU,1,1,a|b|c\r\nPROBE\r\nU,1,1,|B|\r\nU,1,1,||C\r\n"
    )
    assert events[1:] == [
        Constrained(None, True),
        Recovering(1, 2),
        Probe(),
        Update(1, 1, ("a", "B", "C"), (2,), False),
    ]
    assert state.received == 4


def test_a_repetition_that_loop_interrupts_goes_on_after_a_plain_binding() -> None:
    state = opened()
    for number in range(4):
        state.receive_line(f"U,1,1,{number}|b|c")
    state.bind_session(recovery_from=2)
    state.receive_data(HEAD + b"PROG,2\r\nU,1,1,1|b|c\r\nLOOP,0\r\n")
    assert state.bind_session().line == "LS_session=S1"
    events = state.receive_data(HEAD + b"U,1,1,2|b|c\r\nU,1,1,3|b|c\r\nU,1,1,4||\r\n")
    assert events[1:] == [Update(1, 1, ("4", "b", "c"), (0,), False)]


def test_a_recovery_that_is_cut_during_the_repetition_asks_for_what_was_really_received() -> None:
    state = opened()
    for number in range(4):
        state.receive_line(f"U,1,1,{number}|b|c")
    state.bind_session(recovery_from=2)
    state.receive_data(HEAD + b"PROG,2\r\nU,1,1,1|b|c\r\nU,1,1,2|")
    assert state.bind_session().line == "LS_session=S1&LS_recovery_from=5"
    assert state.receive_data(HEAD + b"PROG,5\r\nU,1,1,4||\r\n")[2:] == [Update(1, 1, ("4", "b", "c"), (0,), False)]


def test_a_stream_that_goes_on_later_than_asked_or_without_saying_where_is_a_protocol_error() -> None:
    state = opened()
    state.bind_session()
    state.receive_data(HEAD)
    with pytest.raises(ProtocolError, match="before PROG"):
        state.receive_line("U,1,1,a|b|c")
    with pytest.raises(ProtocolError, match="A gap: only 1"):
        state.receive_line("PROG,2")


def test_half_a_line_of_a_broken_connection_does_not_reach_the_next() -> None:
    state = opened()
    state.receive_data(b"U,1,1,a|b")
    state.bind_session()
    assert [type(event) for event in state.receive_data(HEAD + b"PROG,1\r\n")] == [SessionBound, Recovering]


def test_the_end_of_a_session_and_a_refused_binding_leave_no_session() -> None:
    for line in ("END,31,bye", "CONERR,4,too late"):
        state = opened()
        state.receive_line(line)
        assert state.session_id is None
        with pytest.raises(ValueError, match="no session"):
            state.bind_session()


def test_a_new_session_starts_from_nothing() -> None:
    state = opened()
    state.receive_line("U,1,1,a|b|c")
    state.create_session()
    assert state.receive_data(b"CONOK,S2,50000,5000,*\r\n") == [SessionOpened("S2", 50_000, 5_000, None)]
    assert (state.received, state.subscriptions) == (0, {})
    number, _ = state.subscribe("a", "x")
    assert number == 1
