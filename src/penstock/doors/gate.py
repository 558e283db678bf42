"""Who is let in: new sessions are refused while the load is too high, and while an administrator blocks them.

Asked by `reception`, so for all protocols alike; sessions that are open go on. How many there may be is the kernel's.
Specification: TLCP appendix A, codes 5, 9 and 10.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from penstock.config import LimitsSection
from penstock.config.checks import DASHBOARD_SET
from penstock.doors.load import Load
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.tally import Tally

BLOCKED = "New sessions temporarily blocked"
DRAINING = "The server is shutting down; another one behind the same address may let you in"


class BlockScope(Enum):
    """Whom a block is for."""

    ALL = "all"
    ADAPTER_SET = "adapter_set"
    USER = "user"


class BlockKey(NamedTuple):
    """`name` is that of the adapter set or the user; empty for all."""

    scope: BlockScope
    name: str = ""


class Gate:
    """One for all doors. Blocks last until they are lifted or the server ends."""

    def __init__(self, limits: LimitsSection, tally: Tally, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._tally = tally
        self._clock = clock
        self.load = Load()
        # Each with the name of the administrator.
        self.blocks: dict[BlockKey, str] = {}
        # The server is about to stop: nobody is let in any more.
        self.draining = False
        # Called with what is too high whenever somebody is refused because of the load.
        self.tell_overload: Callable[[str, int], None] = _ignore

    def check(self, adapter_set: str, user: str | None) -> None:
        """Raises a Refusal if nobody, or not this user of this adapter set, may open a session now."""
        refusal = self._refusal(adapter_set, user)
        if refusal is not None:
            self._tally.refused_sessions += 1
            raise refusal

    def turns_away(self) -> bool:
        """Whether a session is refused whoever asks for it; that can be told before the request is read."""
        if self.draining:
            self._tally.refused_sessions += 1
        return self.draining

    def _refusal(self, adapter_set: str, user: str | None) -> Refusal | None:
        if self.draining:
            return Refusal(Reason.DRAINING, DRAINING)
        if self._is_blocked(adapter_set, user):
            return Refusal(Reason.BLOCKED, BLOCKED)
        return self._overload()

    def _is_blocked(self, adapter_set: str, user: str | None) -> bool:
        if not self.blocks:
            return False
        if BlockKey(BlockScope.ADAPTER_SET, adapter_set) in self.blocks:
            return True
        if adapter_set == DASHBOARD_SET:
            # Administrators do not lock themselves out; and their names are not those of other sets' users.
            return False
        if BlockKey(BlockScope.ALL) in self.blocks:
            return True
        return user is not None and BlockKey(BlockScope.USER, user) in self.blocks

    def _overload(self) -> Refusal | None:
        limits = self._limits
        if limits.max_lag_millis and (lag := self.load.lag(self._clock()) * 1000) > limits.max_lag_millis:
            self.tell_overload("lag_millis", round(lag))
            # It passes by itself, so clients are told to try again.
            return Refusal(
                Reason.OVERLOADED, f"Configured maximum lag of the server reached: {limits.max_lag_millis} ms"
            )
        if limits.max_memory_bytes and self.load.memory > limits.max_memory_bytes:
            self.tell_overload("memory_bytes", self.load.memory)
            return Refusal(
                Reason.MAX_LOAD, f"Configured maximum memory of the server reached: {limits.max_memory_bytes} bytes"
            )
        return None


def _ignore(figure: str, value: int) -> None:
    """Nobody wants to hear of it."""
