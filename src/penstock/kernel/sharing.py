"""Sharing: which sessions read one stream, because they want the same and have had the same.

The lanes of a shared stream do the work once for all readers: if all sessions are alike, an update costs little more
than the system calls (docs/performance.md). As soon as anything happens only to one session, it leaves with a clone;
once it has been calm for a while it may share again. The streams themselves are in `stream`.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from penstock.kernel.recovery import RecoveryLog
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.session import Session
    from penstock.kernel.stream import OwnStream, SharedStream

# Seconds for which nothing may have happened only to this session before it shares: leaving and joining cost as much
# as many updates.
CALM = 0.5

# A session that is not at the same point as the others when it could share is tried again after so many seconds, this
# many times: with a frequency limit it comes to the same point after some intervals (`timers.Beat`). Then its stream is
# shared with those that come to the same point later, unless there are this many of its course.
PATIENCE = 2.0
MAX_TRIES = 5
MAX_POINTS = 10

# Sessions that may begin to share in one turn, and the pause, in seconds, before the next turn in which others may:
# a turn in which thousands do would delay everybody.
MAX_JOINS = 50
PAUSE = 0.005

# A session with more lanes than this goes alone: it takes too long to compare them.
MAX_LANES = 1_000


class Sharing(Timed):
    """All shared streams of a kernel, and the sessions that may soon have a share of one."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.calm = CALM
        # Whether it is time to look for sessions that may share, at the end of the turn.
        self.due = False
        self._kernel = kernel
        # By their course; those of one course are at different points of it.
        self._streams: dict[tuple[object, ...], list[SharedStream]] = {}
        # Since when sessions have been calm, and since when others wait for another try, the longest first; and how
        # often they have tried.
        self._loners: dict[Session, tuple[float, int]] = {}
        self._tried: dict[Session, tuple[float, int]] = {}

    def watch(self, session: Session) -> None:
        """Something has happened to a session that has a stream of its own."""
        now = self._kernel.clock()
        self.forget(session)
        self._loners[session] = now, 0
        self._wait(now + self.calm)

    def forget(self, session: Session) -> None:
        """The session must not share until something happens to it again."""
        self._loners.pop(session, None)
        self._tried.pop(session, None)

    def logs(self) -> list[RecoveryLog]:
        """The logs of all shared streams."""
        return [stream.log for streams in self._streams.values() for stream in streams]

    def remove(self, stream: SharedStream) -> None:
        """Nobody reads it any more."""
        streams = self._streams[stream.course]
        streams.remove(stream)
        if not streams:
            del self._streams[stream.course]

    def expire(self, now: float) -> None:
        self.due = True

    def gather(self) -> None:
        """Let sessions that have been calm for long enough share."""
        self.due = False
        now = self._kernel.clock()
        for waiting, pause in ((self._loners, self.calm), (self._tried, PATIENCE)):
            for session, (since, tries) in list(islice(waiting.items(), MAX_JOINS)):
                if since + pause > now:
                    self._wait(since + pause)
                    break
                del waiting[session]
                self._try(session, tries, now)
            else:
                if waiting:
                    self._wait(now + PAUSE)

    def _wait(self, when: float) -> None:
        if not self.alarm or when < self.alarm:
            self._kernel.set_timer(self, when)

    def _try(self, session: Session, tries: int, now: float) -> None:
        own = session.shareable(MAX_LANES)
        if own is not None and not self._share(session, own, tries) and tries < MAX_TRIES:
            self.forget(session)
            self._tried[session] = now, tries + 1

    def _share(self, session: Session, own: OwnStream, tries: int) -> bool:
        """False when it is not at the same point of the course as those with whom it could share."""
        if not own.settle():
            return False
        course = own.course()
        streams = self._streams.get(course, [])
        # A copy: when what waits in one is written, the last of its readers may leave it.
        for stream in streams.copy():
            share = stream.admit(own)
            if share is not None:
                session.share(share)
                return True
        if streams and (tries < MAX_TRIES or len(streams) >= MAX_POINTS):
            return False
        stream, share = own.open_up(self)
        self._streams.setdefault(course, []).append(stream)
        session.share(share)
        return True
