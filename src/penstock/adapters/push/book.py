"""What the adapter looks at: a port. Who implements it is `penstock.services.push`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.push.records import Change, Device, PushSubscription


class PushBook(Protocol):
    """Devices and subscriptions as they are now, and which session has registered which device."""

    def device(self, id: str) -> Device | None: ...

    def subscription(self, id: str) -> PushSubscription | None: ...

    def subscriptions(self, device: str) -> Sequence[PushSubscription]: ...

    def has_registered(self, session: str, device: str) -> bool:
        """Whether the session, named by its id, has registered the device."""

    def listen(self, tell: Callable[[Sequence[Change]], None]) -> Callable[[], None]:
        """Have it called with changes that have been made from now on; returns what ends that."""
