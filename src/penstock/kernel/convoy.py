"""Convoys: sessions that are sent the same lines at the same time, because they want the same and have had the same.

The lanes of one of them, the leader, do the work; what it sends is written to its followers as well: the very same
bytes, joined and framed once. As soon as anything happens to a session alone it parts from the others, with a copy of
what its leader's lanes and outbox hold; once it has been calm for a while it may join again.

With 1,000 sessions of 100 kinds and 50 updates in a write, an update costs a quarter of what it costs without; with all
sessions alike next to nothing but its share of the system call.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from penstock.kernel.recovery import RecoveryLog
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.lane import Lane
    from penstock.kernel.session import Session

# Seconds for which nothing may have happened to a session alone before it joins others: parting and joining cost as
# much as some hundred updates.
CALM = 0.5

# A session that is not at the same point as the others when it could join is asked again, this many times; then it
# begins a convoy of its own, unless there are this many of its course.
MAX_TRIES = 5
MAX_POINTS = 10

# Sessions that may join in one turn, and the pause, in seconds, before the next turn in which others may: a turn in
# which ten thousand join would keep everybody waiting.
MAX_JOINS = 50
PAUSE = 0.005

# A session with more lanes than this goes alone: it takes too long to compare them.
MAX_LANES = 1_000


class Convoy:
    """A leader and its followers; they have the same course."""

    __slots__ = ("course", "followers", "leader", "log")

    def __init__(self, course: tuple[object, ...], leader: Session, log: RecoveryLog) -> None:
        self.course = course
        self.leader = leader
        self.followers: dict[Session, None] = {}
        # What it has sent; each of its sessions knows from where on that is for it as well.
        self.log = log


class Convoys(Timed):
    """All convoys of a kernel, and the sessions that may soon be in one."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.calm = CALM
        # Whether it is time to let sessions join, at the end of the turn.
        self.due = False
        self._kernel = kernel
        # By their course; those of one course are at different points of it.
        self._convoys: dict[tuple[object, ...], list[Convoy]] = {}
        # Since when sessions have been calm, the longest first, and how often they have tried to join.
        self._loners: dict[Session, tuple[float, int]] = {}

    def watch(self, session: Session) -> None:
        """Something has happened to a session that is in no convoy."""
        now = self._kernel.clock()
        self._loners.pop(session, None)
        self._loners[session] = now, 0
        if not self.alarm:
            self._kernel.set_timer(self, now + self.calm)

    def logs(self) -> list[RecoveryLog]:
        """Of all convoys."""
        return [convoy.log for convoys in self._convoys.values() for convoy in convoys]

    def forget(self, session: Session) -> None:
        """The session has been closed."""
        self._loners.pop(session, None)

    def part(self, session: Session) -> None:
        """Take a session out of its convoy; if it has led it, one of its followers does from now on."""
        convoy = session.convoy
        if convoy is None:
            return
        leader = convoy.leader
        session.leave()
        if session is not leader:
            del convoy.followers[session]
            session.assume(leader)
        elif convoy.followers:
            heir, _ = convoy.followers.popitem()
            heir.assume(leader)
            convoy.leader = heir
        else:
            convoy.log.clear()
            convoys = self._convoys[convoy.course]
            convoys.remove(convoy)
            if not convoys:
                del self._convoys[convoy.course]

    def expire(self, now: float) -> None:
        self.due = True

    def gather(self) -> None:
        """Let sessions that have been calm for long enough join a convoy, or begin one."""
        self.due = False
        now = self._kernel.clock()
        loners = self._loners
        for session, (since, tries) in list(islice(loners.items(), MAX_JOINS)):
            if since + self.calm > now:
                self._kernel.set_timer(self, since + self.calm)
                return
            del loners[session]
            if not session.is_small(MAX_LANES):
                # To find out whether a million lanes may join would take longer than it saves, and others wait.
                continue
            if session.may_join() and not self._join(session, tries) and tries < MAX_TRIES:
                loners[session] = now, tries + 1
        if loners:
            self._kernel.set_timer(self, now + PAUSE)

    def _join(self, session: Session, tries: int) -> bool:
        """False when it is not at the same point of the course as those with whom it could go."""
        lanes = session.lanes()
        if not lanes:
            return True
        session.hurry()
        if not session.is_calm():
            return False
        course: tuple[object, ...] = (session.codec, *[lane.course() for lane in lanes])
        convoys = self._convoys.get(course, [])
        for convoy in convoys:
            convoy.leader.hurry()
            if convoy.leader.is_calm() and _match(lanes, convoy.leader.lanes()):
                session.join(convoy)
                session.follow()
                convoy.followers[session] = None
                return True
        if convoys and (tries < MAX_TRIES or len(convoys) >= MAX_POINTS):
            return False
        convoy = Convoy(course, session, session.new_log())
        self._convoys.setdefault(course, []).append(convoy)
        session.join(convoy)
        return True


def _match(lanes: list[Lane], others: list[Lane]) -> bool:
    return all(lane.matches(other) for lane, other in zip(lanes, others, strict=True))
