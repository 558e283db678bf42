"""Planted faults: a stream shared by sessions that must not share it is refused, seen by a naive comparison, or no code
at all.

What sharing must not change is tested in `test_sharing`. Here somebody has made a mistake, and it has to be caught.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from penstock.kernel.item import Mode
from penstock.kernel.ports import Codec, Value
from penstock.kernel.session import Binding, Session
from penstock.kernel.stream import OwnStream, Share, SharedStream
from penstock.testing import Harness, MemoryChannel
from penstock.wire.text6.codec import Text6Codec
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import OLDEST

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
POLLING = Binding(polling=True, idle_millis=30_000)
NEVER = 10.0**9


def is_public(event: Mapping[str, Value]) -> bool:
    """What another user may see."""
    return event.get("y") == "public"


class Client:
    """A session, and how it differs from others."""

    def __init__(
        self,
        harness: Harness,
        *,
        codec: Codec | None = None,
        selector: Callable[[Mapping[str, Value]], bool] | None = None,
        frequency: float | None = None,
        buffer_size: int | None = None,
        bandwidth: float | None = None,
        polls: bool = False,
        fields: str = "x y",
    ) -> None:
        self.polls = polls
        usual = harness.codec
        harness.codec = codec or usual
        self.channel: MemoryChannel
        self.session, self.channel = harness.open(QUIET, max_bandwidth=bandwidth)
        harness.codec = usual
        harness.subscribe(
            self.session,
            1,
            "a",
            fields,
            Mode.MERGE,
            max_frequency=frequency,
            selector=selector,
            buffer_size=buffer_size,
        )


DIFFERENCES: dict[str, Callable[[Harness], Client]] = {
    "the other user may not see everything": lambda harness: Client(harness, selector=is_public),
    "the other user may see fewer fields": lambda harness: Client(harness, fields="x"),
    "the codec of another protocol": lambda harness: Client(harness, codec=Text6Codec()),
    "the codec of another version": lambda harness: Client(harness, codec=TlcpCodec(OLDEST)),
    "a frequency limit": lambda harness: Client(harness, frequency=0.5),
    "a larger buffer": lambda harness: Client(harness, buffer_size=5),
    "a bandwidth limit": lambda harness: Client(harness, bandwidth=0.2),
    "polling": lambda harness: Client(harness, polls=True),
}


class Stage:
    """A session that reads a stream which others may read as well, and another that differs from it."""

    def __init__(self, other: Callable[[Harness], Client], calm: float = 0.0) -> None:
        self.harness = harness = Harness()
        harness.kernel.sharing.calm = calm
        self.one = Client(harness)
        harness.publish("a", x="0", y="public")
        harness.advance(20.0)
        # From now on nobody shares before the fault is planted.
        harness.kernel.sharing.calm = NEVER
        self.other = other(harness)
        harness.publish("a", x="1", y="public")
        harness.advance(20.0)
        if self.other.polls:
            self.other.channel = harness.bind(self.other.session, POLLING)
        self.one.channel.take()
        self.other.channel.take()

    @property
    def shared(self) -> SharedStream:
        share = self.one.session._stream
        assert isinstance(share, Share)
        return share._stream

    def own(self) -> OwnStream:
        stream = self.other.session._stream
        assert isinstance(stream, OwnStream)
        return stream

    def plant(self) -> None:
        """The other session gets a share without being asked what it wants."""
        self.other.session.share(self.shared.let_in(self.own().retire(self.shared)))

    def play(self) -> list[list[tuple[float, list[bytes]]]]:
        """What each of them is written when."""
        for number in range(2, 12):
            self.harness.publish("a", x=str(number) * 10, y="public" if number % 3 else "secret")
            self.harness.advance(0.3)
        self.harness.advance(20.0)
        return [client.channel.written for client in (self.one, self.other)]


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_session_that_differs_is_not_let_into_a_shared_stream(name: str) -> None:
    stage = Stage(DIFFERENCES[name])
    assert stage.shared.admit(stage.own()) is None


def test_a_session_that_is_alike_is_let_in() -> None:
    stage = Stage(Client)
    assert stage.shared.admit(stage.own()) is not None


# A buffer shows only where something waits, a version only where the protocol has changed: both are refused above.
SUBTLE = {"a larger buffer", "the codec of another version"}


@pytest.mark.parametrize("name", [name for name in DIFFERENCES if name not in SUBTLE])
def test_if_it_were_let_in_its_lines_would_not_be_those_it_gets_alone(name: str) -> None:
    alone = Stage(DIFFERENCES[name], calm=NEVER).play()
    stage = Stage(DIFFERENCES[name])
    stage.plant()
    planted = stage.play()
    assert planted[0] == alone[0]
    assert planted[1] != alone[1]


def test_without_a_difference_the_lines_are_the_same() -> None:
    alone = Stage(Client, calm=NEVER).play()
    stage = Stage(Client)
    stage.plant()
    assert stage.play() == alone


def test_a_line_for_one_client_that_went_down_the_shared_stream_would_be_seen_by_the_other() -> None:
    stage = Stage(Client)
    stage.plant()
    stage.shared._outbox.tell(b"MSGDONE,*,1,secret\r\n")
    stage.harness.turn()
    assert stage.other.channel.take() == stage.one.channel.take() == ["MSGDONE,*,1,secret"]


def test_what_is_asked_of_one_session_reaches_no_other() -> None:
    def ask(session: Session) -> None:
        session.notify(b"MSGDONE,*,1,secret\r\n")
        session.subscription(1).reconfigure(0.1)
        session.constrain(1.0)

    stage = Stage(Client)
    stage.plant()
    ask(stage.other.session)
    stage.harness.turn()
    stage.one.channel.take()
    stage.harness.publish("a", x="2", y="public")
    assert stage.one.channel.take() == ["U,1,1,2|"]
    assert stage.one.session.shares
    assert not stage.other.session.shares


# -- what is no code at all ----------------------------------------------------------------------------------------

FAULTS = """\
from penstock.kernel.connection import Connection
from penstock.kernel.lane import Lane
from penstock.kernel.recovery import Batch
from penstock.kernel.session import Session
from penstock.kernel.stream import OwnStream, Share, SharedStream, Stream
from penstock.kernel.subscription import Subscription


def through_a_session(session: Session, lane: Lane, batch: Batch) -> None:
    session._stream.tell(b"")  # fault
    session._stream.add(lane)  # fault
    session._stream.remove(1)  # fault
    session._stream.lanes_of(1)  # fault
    session._stream.outbox.tell(b"")  # fault
    session._stream.limit(10.0)  # fault
    session._stream.rewind(0)  # fault
    session._stream.take_back(batch)  # fault
    session._stream.stop()  # fault
    session._stream.end()  # fault


def through_a_share(share: Share, stream: SharedStream, any_stream: Stream) -> None:
    share.tell(b"")  # fault
    share.limit(10.0)  # fault
    stream.tell(b"")  # fault
    stream.limit(10.0)  # fault
    stream.rewind(0)  # fault
    any_stream.tell(b"")  # fault


def as_if_it_were_alone(session: Session, subscription: Subscription, share: Share, stream: SharedStream) -> None:
    own: OwnStream = session._stream  # fault
    own = stream  # fault
    subscription.start(share)  # fault
    subscription.stop(stream)  # fault
    stream.admit(share)  # fault
    session.share(stream)  # fault


def as_it_should_be(session: Session, subscription: Subscription) -> None:
    session.own().tell(b"")
    session.own().limit(10.0)
    subscription.stop(session.own())
"""


@pytest.mark.timeout(600)
def test_nothing_can_be_done_for_one_client_on_a_stream_that_it_may_share(tmp_path: Path) -> None:
    """The type checker refuses every line that is marked, and no other."""
    program = tmp_path / "faults.py"
    program.write_text(FAULTS)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [*command, "--follow-imports=silent", str(program)],
        cwd=root / "src",
        capture_output=True,
        text=True,
        check=False,
    )
    found = {int(number) for number in re.findall(r"faults\.py:(\d+): error", done.stdout)}
    marked = {number for number, line in enumerate(FAULTS.splitlines(), 1) if line.endswith("# fault")}
    assert found == marked, done.stdout + done.stderr
