"""How much may wait for all sessions together: counted as it comes and goes, and the worst give first."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.item import Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.lane import Lane, QueueLane, weight
from penstock.kernel.limits import SessionLimits
from penstock.kernel.messages import Message
from penstock.kernel.outbox import Outbox
from penstock.kernel.recovery import Batch
from penstock.kernel.session import Binding, Session
from penstock.kernel.stream import Share, Stream
from penstock.kernel.table import TableLane
from penstock.testing import Harness, MemoryChannel
from tests.support.effort import tries

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
LIMIT = 100_000
BIG = "x" * 900


def harness_of(limit: int = LIMIT) -> Harness:
    return Harness(SessionLimits(max_waiting_bytes=limit))


# -- the naive sum -------------------------------------------------------------------------------------------------


def held_bytes(lane: Lane) -> int:
    if isinstance(lane, QueueLane):
        return sum(weight(entry.state) for entry in lane._queue if entry.state is not None)
    if isinstance(lane, TableLane):
        rows = [state for key, (_, state) in lane._rows.items() if isinstance(key, str)]
        return sum(weight(state) for state in [*rows, *lane._parked.values()])
    return 0


def held_lines(lane: Lane) -> Iterator[bytes]:
    if isinstance(lane, QueueLane):
        yield from (entry.line for entry in lane._queue if entry.state is None)
    elif isinstance(lane, TableLane):
        yield from lane._lines.values()


def naive_waiting(kernel: Kernel) -> int:
    """Everything that waits, looked for where it is; once, where sessions share it."""
    total = 0
    outboxes: set[Outbox] = set()
    for session in kernel.sessions.values():
        stream: Stream | Share = session._stream
        if isinstance(stream, Share):
            stream = stream._stream
        outbox = stream._outbox
        if session.channel is None:
            total += sum(map(len, outbox.lines))
        if outbox not in outboxes:
            outboxes.add(outbox)
            total += sum(len(entry) for entry in outbox._pending or () if isinstance(entry, bytes))
            total += sum(map(held_bytes, stream.lanes()))
            total += sum(len(line) for lane in stream.lanes() for line in held_lines(lane))
    return total


def naive_logged(kernel: Kernel) -> int:
    logs = [*[session.own_log for session in kernel.sessions.values()], *kernel.sharing.logs()]
    batches: set[Batch] = {batch for log in logs for batch in log._batches}
    return sum(len(batch.payload) for batch in batches)


ACTS = ["publish", "publish", "publish", "row", "clear", "end", "notify", "turn", "calm", "subscribe", "unsubscribe"]
ACTS += ["congest", "relieve", "cut", "bind", "recover", "rebind", "open", "close"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTS),
        st.integers(0, 7),
        st.integers(0, 400),
    ),
    max_size=60,
)
MODES = (Mode.MERGE, Mode.DISTINCT, Mode.RAW, Mode.COMMAND)


class World:
    def __init__(self, limit: int) -> None:
        limits = SessionLimits(max_waiting_bytes=limit, max_recovery_length=2_000, max_pending_bytes=3_000)
        self.harness = Harness(limits)
        self.sessions: list[tuple[Session, MemoryChannel]] = []
        self.count = 0
        for _ in range(3):
            self.open()

    def open(self) -> None:
        session, channel = self.harness.open(QUIET)
        self.sessions.append((session, channel))
        for number, mode in enumerate(MODES, start=1):
            self.harness.subscribe(session, number, mode.value, "key command x", mode)

    def step(self, what: str, which: int, size: int) -> None:
        harness = self.harness
        self.count += 1
        index = which % len(self.sessions)
        session, channel = self.sessions[index]
        mode = MODES[which % len(MODES)]
        if what == "publish" and mode is not Mode.COMMAND:
            harness.publish(mode.value, x=f"{self.count}" + "x" * size, key="k", command="UPDATE")
        elif what in ("publish", "row"):
            command = ("ADD", "UPDATE", "DELETE")[size % 3]
            harness.publish(Mode.COMMAND.value, key=f"k{which % 3}", command=command, x=f"{self.count}" + "x" * size)
        elif what == "clear":
            harness.feed.clear_snapshot(mode.value)
        elif what == "end":
            harness.feed.end_of_snapshot(mode.value)
        elif what == "turn":
            harness.turn()
        elif what == "calm":
            harness.advance(1.0)
        elif what == "open" and len(self.sessions) < 6:
            self.open()
        elif not session.closed:
            self.of_session(what, index, session, channel, size)

    def of_session(self, what: str, index: int, session: Session, channel: MemoryChannel, size: int) -> None:
        harness = self.harness
        if what == "congest":
            channel.congest()
        elif what == "relieve":
            channel.relieve()
        elif what == "cut":
            channel.cut()
        elif what == "bind":
            self.sessions[index] = session, harness.bind(session, QUIET)
        elif what == "recover" and session.channel is None:
            log = session.log
            fresh = MemoryChannel()
            fresh.session = session
            session.bind(fresh, QUIET, [], log.first + size % (log.reached - log.first + 1))
            self.sessions[index] = session, fresh
        elif what == "rebind" and session.channel is not None:
            session.rebind()
        elif what == "subscribe" and 5 not in session.subscriptions:
            mode = Mode.DISTINCT if size % 2 else Mode.RAW
            harness.subscribe(session, 5, mode.value, "x key", mode)
        elif what == "unsubscribe" and session.subscriptions:
            session.unsubscribe(min(session.subscriptions))
        elif what == "notify":
            session.notify(b"MSGDONE,*," + b"1" * size + b"\r\n")
        elif what == "close":
            session.close(31 if session.channel is not None else None, "")

    def check(self) -> None:
        kernel = self.harness.kernel
        assert kernel.ledger.waiting == naive_waiting(kernel)
        assert kernel.ledger.logged == naive_logged(kernel)


@given(STEPS, st.sampled_from([0, 2_000, 20_000]))
@settings(max_examples=tries(300))
def test_what_is_counted_is_what_there_is(steps: list[tuple[str, int, int]], limit: int) -> None:
    world = World(limit)
    world.check()
    for what, which, size in steps:
        world.step(what, which, size)
        world.check()
    world.harness.turn()
    world.check()
    ledger = world.harness.kernel.ledger
    assert ledger.total <= ledger.limit
    for session in list(world.harness.kernel.sessions.values()):
        session.close(31, "")
    assert (ledger.waiting, ledger.logged) == (0, 0)


# -- who gives first -----------------------------------------------------------------------------------------------


def stopped(harness: Harness, items: str, mode: Mode = Mode.RAW) -> tuple[Session, MemoryChannel]:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, items, "x", mode)
    harness.turn()
    channel.take()
    channel.congest()
    return session, channel


def test_those_for_whom_most_waits_lose_events_first_and_are_told() -> None:
    harness = harness_of()
    patient, _ = stopped(harness, "rare")
    worst = [stopped(harness, "busy") for _ in range(3)]
    for _ in range(5):
        harness.publish("rare", x=BIG)
    held = patient.held
    for _ in range(100):
        harness.publish("busy", x=BIG)
        harness.turn()
        assert harness.kernel.ledger.total <= LIMIT
    assert patient.held == held
    assert harness.kernel.ledger.shed_sessions >= 1
    assert harness.kernel.ledger.cut_sessions == 0
    told = []
    for _, channel in worst:
        channel.relieve()
        harness.turn()
        told += [line for line in channel.take() if line.startswith("OV,")]
    assert told


def test_the_latest_of_each_item_stays() -> None:
    harness = harness_of(20_000)
    _, channel = stopped(harness, "rare busy")
    for number in range(3):
        harness.publish("rare", x=f"rare{number} {BIG}")
    for number in range(100):
        harness.publish("busy", x=f"busy{number} {BIG}")
        harness.turn()
    assert harness.kernel.ledger.shed_sessions > 1
    channel.relieve()
    harness.turn()
    latest = {line[4]: line[6:].split(" ")[0] for line in channel.take() if line.startswith("U,")}
    assert latest == {"1": "rare2", "2": "busy99"}


def test_a_session_that_nothing_can_be_taken_from_is_closed_and_its_client_comes_again() -> None:
    harness = harness_of(20_000)
    session, channel = stopped(harness, "a")
    other, _ = harness.open(QUIET)
    while not session.closed:
        session.notify(b"MSGDONE,*,1" + b"1" * 500 + b"\r\n")
        harness.turn()
        assert harness.kernel.ledger.total <= 20_000
    assert channel.aborted
    assert not other.closed
    assert harness.kernel.ledger.cut_sessions == 1
    assert harness.kernel.ledger.waiting == 0


def test_what_comes_for_a_session_that_is_closed_does_not_wait() -> None:
    harness = harness_of()
    session, _ = harness.open(QUIET)
    session.close(31, "")
    session.messages.done(Message("text", None, 1, True), "the adapter has taken its time")
    harness.turn()
    assert harness.kernel.ledger.waiting == 0


class Transport:
    """A connection outside the kernel."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.was_cut = False

    def holds(self) -> int:
        return self.size

    def cut(self) -> None:
        self.was_cut = True


def test_the_connection_that_holds_most_is_cut_and_no_other() -> None:
    harness = harness_of()
    ledger = harness.kernel.ledger
    small, large, others = Transport(10_000), Transport(60_000), Transport(20_000)
    for transport in (small, large, others):
        ledger.hold(transport)
    small.size = 25_000
    ledger.hold(small)
    harness.kernel.turn()
    assert (large.was_cut, small.was_cut, others.was_cut) == (True, False, False)
    assert ledger.waiting == 45_000
    ledger.release(large)
    ledger.release(small)
    ledger.release(others)
    assert ledger.waiting == 0


def test_long_recovery_logs_go_before_anybody_is_cut() -> None:
    harness = harness_of()
    # Each at another point of its course: what they have sent is theirs alone.
    sessions = []
    for number in range(10):
        session, _ = harness.open(QUIET)
        harness.subscribe(session, 1, f"item{number}", "x", Mode.RAW)
        sessions.append(session)
    for count in range(15):
        for number in range(10):
            harness.publish(f"item{number}", x=f"{count}{BIG}")
        harness.turn()
        assert harness.kernel.ledger.total <= LIMIT
    ledger = harness.kernel.ledger
    assert ledger.emptied_logs
    assert (ledger.cut_sessions, ledger.shed_sessions) == (0, 0)
    assert not any(session.closed for session in sessions)
