"""A stream connection in memory: what a session writes is kept, and the test plays the network."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.kernel.ports import Clock
from penstock.kernel.recovery import Batch
from penstock.kernel.session import Session


class MemoryChannel:
    """The kernel's `Channel`. `limit` is how many bytes it may carry; the other attributes tell what happened to it."""

    overhead = 0
    websocket = True

    def __init__(self, limit: int | None = None, clock: Clock = float) -> None:
        self.limit = limit
        self.lines: list[bytes] = []
        # What was written when, by `clock`.
        self.written: list[tuple[float, list[bytes]]] = []
        self.writes = 0
        self.size = 0
        # The session bound to it; None again after it has let go, or after a cut.
        self.session: Session | None = None
        self.finished = False
        self.closes_socket = False
        self.aborted = False
        self.listening = True
        self.broken = False
        # Without batches: these are counted by who sends them.
        self._counted = 0
        self._taken = 0
        self._clock = clock

    # -- the kernel's side ----------------------------------------------------------------------------------------

    def write(self, lines: Sequence[bytes]) -> int:
        if self.finished or self.aborted:
            raise AssertionError(f"Written after the end: {list(lines)}")
        size = sum(map(len, lines))
        self.lines.extend(lines)
        self.written.append((self._clock(), list(lines)))
        self.writes += 1
        self.size += size
        self._counted += size
        return size

    def send(self, batch: Batch) -> None:
        size = self.write(batch.lines())
        self._counted -= size

    def room(self) -> int | None:
        return None if self.limit is None else self.limit - self._counted

    def finish(self, close_socket: bool) -> None:
        self.finished = True
        self.closes_socket = close_socket
        self.session = None

    def abort(self) -> None:
        self.aborted = True
        self.session = None

    # -- the test's side ------------------------------------------------------------------------------------------

    @property
    def data(self) -> bytes:
        """Everything written so far."""
        return b"".join(self.lines)

    def take(self) -> list[str]:
        """The lines written since the last time, without their ends."""
        new = self.lines[self._taken :]
        self._taken = len(self.lines)
        return [line.decode().removesuffix("\r\n") for line in b"".join(new).splitlines(keepends=True)]

    def congest(self) -> None:
        """The peer reads too slowly."""
        if self.session is not None:
            self.session.congest()

    def relieve(self) -> None:
        """The peer has caught up."""
        if self.session is not None:
            self.session.relieve()

    def cut(self) -> None:
        """The connection breaks."""
        session, self.session = self.session, None
        self.aborted = True
        if session is not None:
            session.drop()
