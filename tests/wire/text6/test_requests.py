from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.form import MAX_DIGITS, parse_line, split_lines
from penstock.wire.text6.errors import Code, RequestError
from penstock.wire.text6.requests import (
    CONTROL_OPERATIONS,
    MODES,
    REQUESTS,
    BindSession,
    Constrain,
    CreateSession,
    Destroy,
    ForceRebind,
    Reconfigure,
    Request,
    SendMessage,
    Start,
    StreamOptions,
    Subscribe,
    Unsubscribe,
    parse_requests,
)

# The least that each request needs.
LEAST = {
    "create_session": "LS_op2=create",
    "bind_session": "LS_session=S1",
    "add": "LS_session=S1&LS_op=add&LS_table=1&LS_id=g&LS_schema=s&LS_mode=MERGE",
    "add_silent": "LS_session=S1&LS_op=add_silent&LS_table=1&LS_id=g&LS_schema=s&LS_mode=MERGE",
    "start": "LS_session=S1&LS_op=start&LS_table=1",
    "delete": "LS_session=S1&LS_op=delete&LS_table=1",
    "reconf": "LS_session=S1&LS_op=reconf&LS_table=1",
    "constrain": "LS_session=S1&LS_op=constrain",
    "force_rebind": "LS_session=S1&LS_op=force_rebind",
    "destroy": "LS_session=S1&LS_op=destroy",
    "send_message": "LS_session=S1&LS_message=hello",
    "asynchronous": "LS_session=S1&LS_message=hello&LS_sequence=CHAT&LS_msg_prog=1",
}
OF_A_SESSION = " ".join(kind for kind in LEAST if kind != "create_session")
STREAMS = "create_session bind_session"

TOO_LONG = "1" * (MAX_DIGITS + 1)
NOT_NUMBERS = ["", "x", "1.5", "1e3", "+1", "%2B1", "0x1", "1_0", "%201", "1%20", "\u0661", "--1", "-", TOO_LONG]
NOT_COUNTS = [*NOT_NUMBERS, "-1"]
NOT_FLAGS = ["", "True", "TRUE", "1", "0", "yes", "true%20", "null"]
NOT_LIMITS = ["", "-1", "-0", "1e3", "1.", ".", "1,5", "nan", "inf", "unlimited", "Unfiltered", "1%20", TOO_LONG]


def name_of(kind: str) -> str:
    if kind == "asynchronous":
        return "send_message"
    return "control" if kind in CONTROL_OPERATIONS else kind


def parse(kind: str, line: str, **defaults: str) -> Request | RequestError:
    """The one request of a line."""
    (found,) = parse_requests(name_of(kind), [line], defaults)
    return found


def with_parameter(kind: str, name: str, value: str) -> str:
    """The least request, with one parameter set to a value, replaced if it is there."""
    return f"{without_parameter(kind, name)}&{name}={value}".lstrip("&")


def without_parameter(kind: str, name: str) -> str:
    return "&".join(pair for pair in LEAST[kind].split("&") if not pair.startswith(f"{name}="))


def accepted(kind: str, line: str) -> Any:
    found = parse(kind, line)
    assert not isinstance(found, RequestError), found.message
    return found


def refused(kind: str, line: str) -> RequestError:
    found = parse(kind, line)
    assert isinstance(found, RequestError), found
    assert str(found) == found.message
    return found


# -- every parameter: default, valid, invalid --------------------------------------------------------------------------

Reader = Callable[[Any], Any]

# Request, parameter, how the record shows it, its default, valid values with their meaning, invalid values.
PARAMETERS: list[tuple[str, str, Reader, Any, list[tuple[str, Any]], list[str]]] = []


def parameter(
    kinds: str, name: str, reader: Reader, default: Any, valid: list[tuple[str, Any]], invalid: list[str]
) -> None:
    PARAMETERS.extend((kind, name, reader, default, valid, invalid) for kind in kinds.split())


NUMBERS = [("0", 0), ("1", 1), ("007", 7), ("9" * MAX_DIGITS, int("9" * MAX_DIGITS))]
FLAGS = [("true", True), ("false", False)]
TEXTS = [
    ("a", "a"),
    ("a%20b", "a b"),
    ("a+b", "a b"),
    ("%26%3D%25%2B", "&=%+"),
    ("%C3%A9", "é"),
    ("é", "é"),
    ("%F0%9D%84%9E", "𝄞"),
    ("=", "="),
]
LIMITS = [("1", 1.0), ("2.5", 2.5), (".5", 0.5), ("000.10", 0.1), ("0", None), ("0.0", None), (".00", None)]

parameter(
    "create_session", "LS_op2", lambda r: type(r), CreateSession, [("create", CreateSession)], ["", "Create", "x"]
)
parameter(
    "create_session",
    "LS_cid",
    lambda r: r.client_id,
    None,
    [("mgQkwtwdysogQz2BJ4Ji%20kOj2Bg", "mgQkwtwdysogQz2BJ4Ji kOj2Bg"), ("x", "x")],
    [],
)
parameter("create_session", "LS_user", lambda r: r.user, None, [*TEXTS, ("", "")], [])
parameter("create_session", "LS_password", lambda r: r.password, None, [*TEXTS, ("", "")], [])
parameter("create_session", "LS_adapter_set", lambda r: r.adapter_set, "DEFAULT", [*TEXTS, ("", "DEFAULT")], [])
parameter(
    STREAMS, "LS_requested_max_bandwidth", lambda r: r.stream.max_bandwidth, None, LIMITS, [*NOT_LIMITS, "unfiltered"]
)
parameter(STREAMS, "LS_content_length", lambda r: r.stream.content_length, None, NUMBERS, NOT_COUNTS)
parameter(STREAMS, "LS_keepalive_millis", lambda r: r.stream.keepalive_millis, None, NUMBERS, NOT_COUNTS)
parameter(STREAMS, "LS_report_info", lambda r: r.stream.report_info, False, FLAGS, NOT_FLAGS)
parameter(STREAMS, "LS_polling", lambda r: r.stream.polling, False, FLAGS, NOT_FLAGS)
parameter(STREAMS, "LS_polling_millis", lambda r: r.stream.polling_millis, 0, NUMBERS, NOT_COUNTS)
parameter(STREAMS, "LS_idle_millis", lambda r: r.stream.idle_millis, 0, NUMBERS, NOT_COUNTS)
parameter(
    OF_A_SESSION, "LS_session", lambda r: r.session, "S1", [("S2", "S2"), ("%53x", "Sx"), ("", ""), ("a+b", "a b")], []
)
parameter(
    "add add_silent start delete reconf",
    "LS_table",
    lambda r: r.table,
    1,
    [("2", 2), ("9" * MAX_DIGITS, int("9" * MAX_DIGITS))],
    [*NOT_COUNTS, "0"],
)

ADDS = "add add_silent"
parameter(ADDS, "LS_data_adapter", lambda r: r.data_adapter, "DEFAULT", [*TEXTS, ("", "DEFAULT")], [])
parameter(ADDS, "LS_id", lambda r: r.group, "g", [*TEXTS, ("NASDAQ.MSFT|AFF.F", "NASDAQ.MSFT|AFF.F")], [])
parameter(ADDS, "LS_schema", lambda r: r.schema, "s", [*TEXTS, ("LAST_PRICE|BID", "LAST_PRICE|BID")], [])
parameter(ADDS, "LS_selector", lambda r: r.selector, None, [*TEXTS, ("", "")], [])
parameter(
    ADDS, "LS_mode", lambda r: r.mode, "MERGE", [(mode, mode) for mode in MODES], ["", "merge", "ALL", "MERGE%20"]
)
parameter(ADDS, "LS_requested_buffer_size", lambda r: r.buffer_size, None, NUMBERS, [*NOT_COUNTS, "unlimited"])
parameter(
    ADDS,
    "LS_requested_max_frequency",
    lambda r: (r.max_frequency, r.unfiltered),
    (None, False),
    [*((text, (rate, False)) for text, rate in LIMITS), ("unfiltered", (None, True))],
    NOT_LIMITS,
)
parameter(
    ADDS,
    "LS_snapshot",
    lambda r: (r.snapshot, r.snapshot_length),
    (False, None),
    [("true", (True, None)), ("false", (False, None))],
    [*NOT_FLAGS, "10"],
)
parameter(
    "reconf",
    "LS_requested_max_frequency",
    lambda r: (r.changes_frequency, r.max_frequency),
    (False, None),
    [(text, (True, rate)) for text, rate in LIMITS],
    [*NOT_LIMITS, "unfiltered"],
)
parameter(
    "constrain", "LS_requested_max_bandwidth", lambda r: r.max_bandwidth, None, LIMITS, [*NOT_LIMITS, "unfiltered"]
)
parameter(
    "destroy",
    "LS_cause_code",
    lambda r: r.cause_code,
    None,
    [("0", 0), ("-7", -7), ("-0", 0), ("1", 0), ("9" * MAX_DIGITS, 0)],
    NOT_NUMBERS,
)

MESSAGES = "send_message asynchronous"
parameter(MESSAGES, "LS_message", lambda r: r.message, "hello", [*TEXTS, ("", ""), ("%0D%0A", "\r\n")], [])
parameter(MESSAGES, "LS_max_wait", lambda r: r.max_wait_millis, None, NUMBERS, NOT_COUNTS)
parameter(
    "asynchronous",
    "LS_sequence",
    lambda r: r.sequence,
    "CHAT",
    [
        ("a_1", "a_1"),
        ("x" * 256, "x" * 256),
        ("UNORDERED_MESSAGES", None),
        ("unordered_messages", "unordered_messages"),
    ],
    ["", "a-b", "a%20b", "é", "x" * 257, "*"],
)
parameter(
    "asynchronous",
    "LS_msg_prog",
    lambda r: r.progressive,
    1,
    [("2", 2), ("9" * MAX_DIGITS, 10**MAX_DIGITS - 1)],
    [*NOT_COUNTS, "0"],
)


def identity(row: tuple[Any, ...]) -> str:
    return f"{row[0]} {row[1]}"


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_a_parameter_has_its_default_in_the_least_request(row: tuple[Any, ...]) -> None:
    kind, name, reader, default, _, _ = row
    assert reader(accepted(kind, LEAST[kind])) == default, name


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_every_valid_value_of_a_parameter_is_understood(row: tuple[Any, ...]) -> None:
    kind, name, reader, _, valid, _ = row
    for text, meaning in valid:
        found = accepted(kind, with_parameter(kind, name, text))
        assert reader(found) == meaning, text
        assert found.unknown == (), text


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_every_invalid_value_is_a_protocol_error_that_names_parameter_value_and_what_is_allowed(
    row: tuple[Any, ...],
) -> None:
    kind, name, _, _, _, invalid = row
    for text in invalid:
        error = refused(kind, with_parameter(kind, name, text))
        assert error.code is None, text
        assert error.message.startswith(name), text
        value = parse_line(f"x={text}")["x"]
        assert f"{name}={value[:60]}" in error.message or error.message == f"{name} is empty", text
        assert "expected" in error.message or error.message == f"{name} is empty", text
        assert len(error.message) < 250, text


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
@pytest.mark.parametrize("value", ["%", "%4", "%zz", "a%", "%u0041", "%C3", "%FF", "%ED%A0%80", "%C0%80"])
def test_bad_percent_encoding_is_a_protocol_error_wherever_it_stands(row: tuple[Any, ...], value: str) -> None:
    kind, name = row[:2]
    error = refused(kind, with_parameter(kind, name, value))
    assert error.code is None
    assert name in error.message


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_a_parameter_given_twice_is_a_protocol_error(row: tuple[Any, ...]) -> None:
    kind, name, _, _, valid, _ = row
    error = refused(kind, f"{with_parameter(kind, name, valid[0][0])}&{name}={valid[-1][0]}")
    assert error.code is None
    assert name in error.message


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        ("create_session", "LS_op2", None),
        *((kind, "LS_session", None) for kind in OF_A_SESSION.split()),
        *((kind, "LS_table", None) for kind in ("add", "add_silent", "start", "delete", "reconf")),
        *((kind, "LS_op", None) for kind in CONTROL_OPERATIONS),
        *((kind, "LS_mode", None) for kind in ADDS.split()),
        *((kind, "LS_id", Code.GROUP) for kind in ADDS.split()),
        *((kind, "LS_schema", Code.SCHEMA) for kind in ADDS.split()),
        *((kind, "LS_message", None) for kind in MESSAGES.split()),
        ("asynchronous", "LS_sequence", None),
        ("asynchronous", "LS_msg_prog", None),
    ],
)
def test_a_request_without_a_parameter_it_needs_is_refused_by_name(kind: str, name: str, code: int | None) -> None:
    error = refused(kind, without_parameter(kind, name))
    assert error.code == code
    assert error.message.startswith(f"{name} is missing")


@pytest.mark.parametrize(("name", "code"), [("LS_id", 21), ("LS_schema", 23)])
def test_an_empty_name_is_a_bad_name_with_its_code(name: str, code: int) -> None:
    for kind in ADDS.split():
        error = refused(kind, with_parameter(kind, name, ""))
        assert (error.code, error.message) == (code, f"{name} is empty")


@pytest.mark.parametrize("operation", ["", "Add", "ADD", "subscribe", "create", "add%20", "register"])
def test_an_unknown_operation_is_refused_with_those_that_exist(operation: str) -> None:
    error = refused("add", with_parameter("add", "LS_op", operation))
    assert error.code is None
    assert error.message.startswith("LS_op")
    assert not operation or all(name in error.message for name in CONTROL_OPERATIONS)


# -- the requests as the specification prints them ---------------------------------------------------------------------

SESSION = "S9cb4758037a95c01T0439915"
ELEVEN = "last_price+time+pct_change+bid_quantity+bid+ask+ask_quantity+min+max+ref_price+open_price"
CREATE = "LS_op2=create&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg&LS_adapter_set=WELCOME&LS_user="


def printed_add(table: int, silent: bool, group: str, schema: str, snapshot: bool) -> Subscribe:
    return Subscribe(
        SESSION,
        table=table,
        silent=silent,
        data_adapter="STOCKS",
        group=group,
        schema=schema,
        mode="MERGE",
        selector=None,
        buffer_size=None,
        max_frequency=None,
        unfiltered=False,
        snapshot=snapshot,
        snapshot_length=None,
    )


PRINTED: list[tuple[str, str, Request]] = [
    (
        "create_session",
        CREATE,
        CreateSession(StreamOptions(), "", None, "WELCOME", "mgQkwtwdysogQz2BJ4Ji kOj2Bg"),
    ),
    (
        "control",
        f"LS_session={SESSION}&LS_table=2&LS_op=add&LS_data_adapter=STOCKS&LS_id=item2+item11+item18&LS_schema={ELEVEN}"
        "&LS_mode=MERGE&LS_snapshot=true",
        printed_add(2, False, "item2 item11 item18", ELEVEN.replace("+", " "), True),
    ),
    (
        "control",
        f"LS_session={SESSION}&LS_table=1&LS_op=add&LS_data_adapter=STOCKS&LS_id=item2"
        "&LS_schema=last_price+pct_change+time&LS_mode=MERGE&LS_snapshot=true",
        printed_add(1, False, "item2", "last_price pct_change time", True),
    ),
    (
        "control",
        f"LS_session={SESSION}&LS_table=1&LS_op=add_silent&LS_data_adapter=STOCKS&LS_id=item2"
        "&LS_schema=last_price+pct_change+time&LS_mode=MERGE",
        printed_add(1, True, "item2", "last_price pct_change time", False),
    ),
    ("control", f"LS_session={SESSION}&LS_table=1&LS_op=start", Start(SESSION, 1)),
    ("control", f"LS_session={SESSION}&LS_table=2&LS_op=delete", Unsubscribe(SESSION, 2)),
]


@pytest.mark.parametrize(("name", "line", "request_"), PRINTED)
def test_the_requests_of_chapter_5_are_understood_in_a_body_and_in_a_query_string(
    name: str, line: str, request_: Request
) -> None:
    assert parse_requests(name, [line], {}) == [request_]
    assert parse_requests(name, [""], parse_line(line)) == [request_]


@pytest.mark.parametrize(("name", "line", "request_"), PRINTED)
def test_the_line_end_behind_a_request_is_optional_and_other_bytes_are_not_allowed(
    name: str, line: str, request_: Request
) -> None:
    for tail in ("\r\n", "&", "&\r\n", "&&"):
        assert parse_requests(name, split_lines(line + tail), {}) == [request_]
    for tail in ("\r", "\n", "&x", "&=", "%", "\r\n\r\n", "\r\nx"):
        found = parse_requests(name, split_lines(line + tail), {})
        assert isinstance(found[-1], RequestError), tail
        assert found[:-1] in ([], [request_]), tail


@pytest.mark.parametrize(("name", "line", "request_"), PRINTED)
def test_a_request_cut_off_anywhere_is_never_taken_for_the_whole(name: str, line: str, request_: Request) -> None:
    for end in range(len(line)):
        assert parse_requests(name, [line[:end]], {}) != [request_], line[:end]


def test_each_request_has_its_record() -> None:
    records = {kind: type(accepted(kind, line)) for kind, line in LEAST.items()}
    assert records == {
        "create_session": CreateSession,
        "bind_session": BindSession,
        "add": Subscribe,
        "add_silent": Subscribe,
        "start": Start,
        "delete": Unsubscribe,
        "reconf": Reconfigure,
        "constrain": Constrain,
        "force_rebind": ForceRebind,
        "destroy": Destroy,
        "send_message": SendMessage,
        "asynchronous": SendMessage,
    }


# -- parameters that depend on others ----------------------------------------------------------------------------------


def test_only_add_silent_is_silent() -> None:
    assert not accepted("add", LEAST["add"]).silent
    assert accepted("add_silent", LEAST["add_silent"]).silent


@pytest.mark.parametrize(("text", "length", "snapshot"), [("0", 0, False), ("1", 1, True), ("25", 25, True)])
def test_a_length_of_the_snapshot_is_for_distinct_mode_only(text: str, length: int, snapshot: bool) -> None:
    for mode in MODES:
        line = f"{with_parameter('add', 'LS_mode', mode)}&LS_snapshot={text}"
        if mode == "DISTINCT":
            found = accepted("add", line)
            assert (found.snapshot, found.snapshot_length) == (snapshot, length)
        else:
            assert "DISTINCT" in refused("add", line).message


def test_raw_mode_has_no_snapshot_and_no_filter() -> None:
    found = accepted("add", with_parameter("add", "LS_mode", "RAW") + "&LS_snapshot=true&LS_requested_max_frequency=1")
    assert (found.snapshot, found.unfiltered) == (False, True)


@pytest.mark.parametrize("kind", ["start", "delete"])
def test_the_subscription_may_be_repeated_where_it_means_nothing(kind: str) -> None:
    line = f"{LEAST[kind]}&LS_id=&LS_schema=s&LS_mode=no&LS_data_adapter=x&LS_snapshot=1&LS_selector=&LS_new=1"
    found = accepted(kind, line)
    assert found.unknown == ("LS_new",)


def test_a_message_with_sequence_and_number_is_asynchronous() -> None:
    assert accepted("send_message", LEAST["send_message"]).is_synchronous
    assert not accepted("asynchronous", LEAST["asynchronous"]).is_synchronous
    unordered = accepted("asynchronous", with_parameter("asynchronous", "LS_sequence", "UNORDERED_MESSAGES"))
    assert (unordered.is_synchronous, unordered.sequence, unordered.progressive) == (False, None, 1)


def test_a_password_is_never_shown() -> None:
    found = accepted("create_session", f"{LEAST['create_session']}&LS_user=u&LS_password=s3cret")
    assert "s3cret" not in repr(found)
    for line in ("LS_password=s3cret%", "LS_password=s3cret&LS_password=s3cret", "LS_password=a&s3cret", "s3cret"):
        assert "s3cret" not in refused("create_session", line).message


def test_parameters_nobody_knows_are_reported_and_change_nothing() -> None:
    for kind, line in LEAST.items():
        found = accepted(kind, f"{line}&LS_new=1&x=&%C3%A9=2")
        assert found.unknown == ("LS_new", "x", "é"), kind
        assert accepted(kind, line).unknown == ()


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_names_are_understood_in_any_case_as_published_clients_write_them(row: tuple[Any, ...]) -> None:
    kind, name, reader, _, valid, _ = row
    for spelling in (name.lower(), name.upper(), f"LS_{name[3:].capitalize()}"):
        text, meaning = valid[0]
        found = accepted(kind, f"{without_parameter(kind, name)}&{spelling}={text}".lstrip("&"))
        assert reader(found) == meaning
        assert found.unknown == ()
        twice = refused(kind, f"{with_parameter(kind, name, text)}&{spelling}={text}")
        assert twice.message == f"Parameter {name} is given twice"


def test_only_names_of_the_protocol_lose_their_case() -> None:
    found = accepted("destroy", f"{LEAST['destroy']}&X=1&x=2&LS_New=3")
    assert found.unknown == ("X", "x", "LS_new")


def test_a_line_overrides_the_query_string_in_any_spelling() -> None:
    assert parse_requests("control", ["LS_op=start&LS_Table=2"], {"ls_table": "1", "LS_SESSION": "S1"}) == [
        Start("S1", 2)
    ]


def test_a_request_of_the_newer_protocol_learns_where_its_version_belongs() -> None:
    for kind, line in LEAST.items():
        error = refused(kind, f"{line}&LS_protocol=TLCP-2.4.0")
        assert error.code is None
        assert error.message.startswith("LS_protocol=TLCP-2.4.0: expected only in the query string"), kind
    assert "LS_protocol" in refused("create_session", "LS_adapter_set=DEMO").message


# -- names and lines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Control", "control.txt", "msg", "heartbeat", "wsok", "x" * 5000, "é"])
def test_an_unknown_request_name_is_a_protocol_error(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_requests(name, [""], {})
    assert caught.value.code is None
    assert all(known in caught.value.message for known in REQUESTS)
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("name", STREAMS.split())
def test_a_request_for_a_connection_is_one_line(name: str) -> None:
    (found,) = parse_requests(name, [LEAST[name], LEAST[name]], {})
    assert isinstance(found, RequestError)
    assert f"{name} takes one line of parameters, found 2" == found.message


@pytest.mark.parametrize("line", ["x", "=", "=x", "&", "a=1&", "&a=1", "a=1&&b=2", "a=1&b", "\0", "a\r", "a=1\nb=2"])
def test_a_line_that_is_not_pairs_is_a_protocol_error(line: str) -> None:
    for kind in LEAST:
        assert refused(kind, line).code is None


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["", "x", "LS_op=nothing", "LS_op=add&LS_table=0", "LS_session=%FF", "LS_op=start"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_wrong_line_yields_its_error_in_its_place(wrong: str, position: int) -> None:
    batch = [LEAST["delete"], LEAST["constrain"]]
    batch.insert(position, wrong)
    found = parse_requests("control", split_lines("\r\n".join([*batch, ""])), {})
    error = found.pop(position)
    assert isinstance(error, RequestError)
    assert error.code is None
    assert found == [Unsubscribe("S1", 1), Constrain("S1", None)]


def test_operations_of_all_kinds_come_in_one_batch_in_order() -> None:
    body = "\r\n".join(LEAST[kind] for kind in CONTROL_OPERATIONS)
    kinds = [type(found) for found in parse_requests("control", split_lines(body), {})]
    assert kinds == [Subscribe, Subscribe, Start, Unsubscribe, Reconfigure, Constrain, ForceRebind, Destroy]


def test_messages_come_in_batches_too() -> None:
    found = parse_requests("send_message", [LEAST["send_message"], LEAST["asynchronous"]], {})
    assert [request.is_synchronous for request in found if isinstance(request, SendMessage)] == [True, False]


def test_the_query_string_is_a_default_that_a_line_may_override() -> None:
    found = parse_requests("control", ["LS_op=destroy", "LS_op=destroy&LS_session=S2"], {"LS_session": "S1"})
    assert found == [Destroy("S1", None), Destroy("S2", None)]


# -- anything ----------------------------------------------------------------------------------------------------------

FREE = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(FREE, FREE, FREE.filter(bool), st.sampled_from([quote, quote_plus]), st.booleans())
def test_any_text_comes_through_in_either_encoding(
    user: str, password: str, adapter_set: str, encode: Callable[..., str], everything: bool
) -> None:
    """RFC 3986 and HTML forms differ in the space only."""
    safe = "" if everything else "/:;,'()*!~|"
    pairs = {"LS_op2": "create", "LS_user": user, "LS_password": password, "LS_adapter_set": adapter_set}
    line = "&".join(f"{name}={encode(value, safe=safe)}" for name, value in pairs.items())
    found = accepted("create_session", line)
    assert (found.user, found.password, found.adapter_set) == (user, password, adapter_set)


@given(st.data())
def test_any_subscription_is_read_back_as_it_was_written(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES))
    table = data.draw(st.integers(1, 10**15 - 1))
    group, schema = data.draw(FREE.filter(bool)), data.draw(FREE.filter(bool))
    buffer_size = data.draw(st.none() | st.integers(0, 10**15 - 1))
    frequency = data.draw(st.none() | st.integers(0, 10_000).map(lambda tenths: tenths / 10))
    silent = data.draw(st.booleans())
    given_ = {
        "LS_session": "S1",
        "LS_op": "add_silent" if silent else "add",
        "LS_table": str(table),
        "LS_id": group,
        "LS_schema": schema,
        "LS_mode": mode,
        "LS_requested_buffer_size": None if buffer_size is None else str(buffer_size),
        "LS_requested_max_frequency": None if frequency is None else str(frequency),
    }
    pairs = data.draw(st.permutations([(name, value) for name, value in given_.items() if value is not None]))
    found = accepted("add", "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs))
    assert (found.table, found.group, found.schema, found.mode, found.silent) == (table, group, schema, mode, silent)
    assert (found.buffer_size, found.max_frequency) == (buffer_size, frequency or None)


NAMES = sorted({row[1] for row in PARAMETERS} | {"LS_op", "LS_protocol", "x"})
PAIRS = st.tuples(
    st.sampled_from(NAMES), st.sampled_from([*CONTROL_OPERATIONS, *MODES, "create", "1", "%41"]) | st.text(max_size=8)
)
BODIES = st.lists(st.lists(PAIRS, max_size=8), max_size=4)


@given(st.sampled_from(REQUESTS), BODIES)
def test_any_lines_become_one_request_or_one_error_each(name: str, body: list[list[tuple[str, str]]]) -> None:
    lines = ["&".join(f"{name}={value}" for name, value in pairs) for pairs in body]
    found = parse_requests(name, lines, {})
    for entry in found:
        assert isinstance(entry, Request) or entry.code in (None, Code.GROUP, Code.SCHEMA)
    if name not in STREAMS.split() or len(lines) < 2:
        assert len(found) == len(lines)
