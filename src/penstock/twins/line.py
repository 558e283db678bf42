"""The states of one thing or policy while some of them are not on the disk yet.

Commands build on the newest state; nobody is told of it before its record is durable, and one that never becomes
durable is undone. The committed state is always the fold of the journal's records, whatever was undone before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from penstock.twins.twin import Change, Twin, after


@dataclass(slots=True)
class ChangeStep:
    """One change that the journal was given, and what it leads from and to."""

    change: Change
    revision: int
    timestamp: int
    before: Twin | None
    after: Twin | None


class ChangeLine:
    """Steps end in the order in which they began, by `commit` or by `drop`: so does the journal."""

    __slots__ = ("_steps", "committed")

    def __init__(self, committed: Twin | None = None) -> None:
        self.committed = committed
        self._steps: deque[ChangeStep] = deque()

    @property
    def head(self) -> Twin | None:
        """The state if all writes succeed: what the next command builds on."""
        return self._steps[-1].after if self._steps else self.committed

    @property
    def is_idle(self) -> bool:
        return not self._steps

    def push(self, change: Change, revision: int, timestamp: int) -> ChangeStep:
        """The journal was given this."""
        before = self.head
        step = ChangeStep(change, revision, timestamp, before, after(before, change, revision, timestamp))
        self._steps.append(step)
        return step

    def commit(self, step: ChangeStep) -> None:
        """It is on the disk. Its `before` and `after` are the states that the disk has."""
        self._take(step)
        self.committed = step.after

    def drop(self, step: ChangeStep) -> None:
        """It never will be; what was built on it now builds on the state before it."""
        self._take(step)
        state = self.committed
        for later in self._steps:
            later.before = state
            state = later.after = after(state, later.change, later.revision, later.timestamp)

    def _take(self, step: ChangeStep) -> None:
        if self._steps.popleft() is not step:
            raise RuntimeError("steps of one line ended out of order")
