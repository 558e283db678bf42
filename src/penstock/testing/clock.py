"""A clock that stands still until the test moves it."""

from __future__ import annotations

# Not 0: a deadline of 0 would look like none.
START = 1_000.0


class Clock:
    """Call it for the time in seconds."""

    def __init__(self, start: float = START) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move on; back is not possible."""
        self.move_to(self.now + seconds)

    def move_to(self, when: float) -> None:
        if when < self.now:
            raise ValueError(f"A clock does not go back: {when} is before {self.now}")
        self.now = when
