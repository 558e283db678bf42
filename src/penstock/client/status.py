"""Whether a client hears its server: what it has shown may be old while it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Status:
    """Told when a session is bound to a connection, when that is lost, and when it fails again for another reason."""

    connected: bool
    # Seconds since 1970. Connected: since then. Not connected: the server was last heard then; what has come before may
    # be out of date by now.
    since: float
    # Why there is no connection; empty if there is one.
    reason: str = ""
    # How many sessions there were, this one included. After a connection that was lost, one more means that what has
    # happened meanwhile is not made up for; subscriptions begin again.
    sessions: int = 0


StatusListener = Callable[[Status], None]
