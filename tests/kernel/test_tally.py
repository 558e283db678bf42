"""What the kernel counts is what happened, also where many clients are served by one stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.item import Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.kernel.messages import Message
from penstock.kernel.ports import ItemGrant
from penstock.kernel.session import Binding, Session
from penstock.kernel.stream import Figures
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
SIZE = 4

# Notifications of the stream; others are about the connection.
NUMBERED = {b"U", b"SUBOK", b"SUBCMD", b"CONF", b"EOS", b"OV"}

# Long enough for sessions that want the same to share a stream.
CALM = 2.5

CLIENTS = st.integers(0, SIZE - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 9)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.3, CALM])),
        st.tuples(st.sampled_from(["congest", "relieve", "limit", "unlimit", "close"]), CLIENTS),
    ),
    max_size=30,
)


class Company:
    """Clients that want the same items, each in its way."""

    def __init__(self, mode: Mode, frequency: float | None, buffer_size: int | None, length: int | None) -> None:
        self.harness = Harness(SessionLimits(max_buffer_size=3))
        self.mode = mode
        self.published = 0
        self.sessions: list[Session] = []
        self.channels: list[list[MemoryChannel]] = []
        for _ in range(SIZE):
            session, channel = self.harness.open(QUIET, length)
            self.harness.subscribe(session, 1, "a", "key command x", mode, False, None, frequency, False, buffer_size)
            self.sessions.append(session)
            self.channels.append([channel])

    def do(self, step: str, value: float) -> None:
        if step == "publish":
            for _ in range(int(value)):
                self.published += 1
                row = {"key": str(self.published % 3), "command": "UPDATE", "x": str(self.published)}
                self.harness.publish("a", **row)
        elif step == "wait":
            self.harness.advance(value)
        else:
            self._do_to(self.sessions[int(value)], step)
        self.harness.turn()
        self._bind_again()

    def _do_to(self, session: Session, step: str) -> None:
        if session.closed:
            return
        if step == "congest":
            session.congest()
        elif step == "relieve":
            session.relieve()
        elif step == "close":
            session.close(31, "")
        else:
            session.constrain(5.0 if step == "limit" else None)

    def _bind_again(self) -> None:
        """Connections of limited length end, and their clients come again."""
        for session, channels in zip(self.sessions, self.channels, strict=True):
            if channels[-1].finished and not session.closed:
                channels.append(self.harness.bind(session, QUIET, channels[-1].limit))

    def seen(self, client: int) -> Figures:
        """What a client was sent, by its own account."""
        lines = [line for channel in self.channels[client] for line in b"".join(channel.lines).splitlines(True)]
        updates = [line for line in lines if line.startswith(b"U,")]
        lost = [int(line.split(b",")[3]) for line in lines if line.startswith(b"OV,")]
        numbered = [
            line for line in lines if line.split(b",")[0] in {b"U", b"SUBOK", b"SUBCMD", b"CONF", b"EOS", b"OV"}
        ]
        return Figures(len(updates), sum(map(len, numbered)), sum(lost))


@given(
    mode=st.sampled_from([Mode.MERGE, Mode.DISTINCT, Mode.RAW, Mode.COMMAND]),
    frequency=st.sampled_from([None, 2.0]),
    buffer_size=st.sampled_from([None, 1, 2]),
    length=st.sampled_from([None, 700]),
    steps=STEPS,
)
def test_what_is_counted_is_what_clients_were_sent(
    mode: Mode, frequency: float | None, buffer_size: int | None, length: int | None, steps: list[tuple[str, float]]
) -> None:
    company = Company(mode, frequency, buffer_size, length)
    tally = company.harness.kernel.tally
    for step, value in steps:
        company.do(step, value)
        seen = [company.seen(client) for client in range(SIZE)]
        assert tally.updates_out == sum(each.updates for each in seen)
        assert tally.bytes_out == sum(each.bytes for each in seen)
        for session, each in zip(company.sessions, seen, strict=True):
            found = session.figures()
            assert session.closed or (found.updates, found.bytes) == (each.updates, each.bytes)
            # A loss is told when its line may go.
            assert session.closed or found.lost >= each.lost
    assert tally.events_in == company.published == company.harness.feed.events
    assert tally.used_sessions == 0


def test_events_are_sent_left_out_or_lost() -> None:
    harness = Harness(SessionLimits(max_buffer_size=3))
    slow, _ = harness.open(QUIET)
    raw, _ = harness.open(QUIET)
    harness.subscribe(slow, 1, "a", "x", Mode.MERGE)
    harness.subscribe(raw, 1, "a", "x", Mode.RAW)
    harness.turn()
    slow.congest()
    raw.congest()
    for number in range(10):
        harness.publish("a", x=str(number))
    slow.relieve()
    raw.relieve()
    harness.turn()
    tally = harness.kernel.tally
    assert tally.filtered == 9
    assert tally.lost == 7 == raw.figures().lost
    assert tally.updates_out == 1 + 3
    assert tally.events_in == tally.events_passed == 10


def test_what_is_left_out_of_a_shared_stream_counts_for_all_who_read_it() -> None:
    harness = Harness()
    for _ in range(3):
        session, _ = harness.open(QUIET)
        harness.subscribe(session, 1, "a", "x", Mode.MERGE, max_frequency=1.0)
    harness.publish("a", x="0")
    harness.advance(CALM)
    for number in range(1, 6):
        harness.publish("a", x=str(number))
    harness.advance(CALM)
    tally = harness.kernel.tally
    assert [session.shares for session in harness.kernel.sessions.values()] == [True] * 3
    assert tally.updates_out + tally.filtered == 3 * 6


def test_what_is_sent_again_is_no_new_update() -> None:
    harness = Harness()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    harness.turn()
    tally = harness.kernel.tally
    assert (tally.updates_out, tally.bytes_out) == (1, session.figures().bytes)
    before = tally.bytes_out
    channel.abort()
    session.drop()
    harness.bind(session, QUIET, recovery_from=0)
    assert (tally.updates_out, tally.bytes_out) == (1, 2 * before)


def test_prefiltered_events_do_not_pass() -> None:
    harness = Harness()
    session, _ = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", granted=(ItemGrant("a", prefilter_frequency=1.0),))
    for number in range(5):
        harness.publish("a", x=str(number))
    tally = harness.kernel.tally
    assert (tally.events_in, tally.events_passed) == (5, 1)
    assert harness.feed.items["a"].events == 5


def test_sessions_are_used_from_their_first_request_on() -> None:
    harness = Harness(SessionLimits(max_sessions=2))
    first, _ = harness.open()
    second, _ = harness.open()
    tally = harness.kernel.tally
    assert (tally.opened_sessions, tally.used_sessions) == (2, 0)
    first.touch()
    first.touch()
    second.touch()
    second.close(31, "")
    second.close(31, "")
    assert (tally.used_sessions, tally.most_sessions) == (1, 2)


def test_subscribed_items_are_counted_for_each_client() -> None:
    harness = Harness()
    first, _ = harness.open()
    second, _ = harness.open()
    harness.subscribe(first, 1, "a b", "x")
    harness.subscribe(second, 1, "a b c", "x")
    tally = harness.kernel.tally
    assert tally.subscribed_items == 5
    first.unsubscribe(1)
    second.close(31, "")
    assert (tally.subscribed_items, tally.most_subscribed_items) == (0, 5)


def test_messages_are_counted_with_their_characters() -> None:
    harness = Harness()
    session, _ = harness.open()
    session.messages.submit(Message("héllo", None, None, False), None)
    kernel: Kernel = harness.kernel
    assert (kernel.tally.messages, kernel.tally.message_characters) == (1, 5)
