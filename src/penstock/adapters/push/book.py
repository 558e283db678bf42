"""What the adapter looks at: a port. Who implements it is `penstock.services.push`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.push.records import Device, PushChange, PushSubscription


class PushBook(Protocol):
    """Devices and subscriptions as they are now, which session has registered which device, and keys of sites."""

    def device(self, id: str) -> Device | None: ...

    def subscription(self, id: str) -> PushSubscription | None: ...

    def subscriptions(self, device: str) -> Sequence[PushSubscription]: ...

    def has_registered(self, session: str, device: str) -> bool:
        """Whether the session, named by its id, has registered the device."""

    def public_key(self, site: str) -> str | None:
        """Of a site for Web Push, as pages need it; None if there is no such site, or it has none."""

    def listen(self, tell: Callable[[Sequence[PushChange]], None], read_keys: Callable[[], None]) -> Callable[[], None]:
        """Have one called with changes that have been made from now on, the other when keys may be others; returns
        what ends that.
        """
