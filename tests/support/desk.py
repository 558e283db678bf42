"""Devices and push subscriptions in memory: what is behind the TLCP door where a test is about the door alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.kernel.session import Session
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.tlcp.push import (
    ActivatePush,
    DeactivatePush,
    PushControl,
    ReconfigurePush,
    RegisterDevice,
    ResetBadge,
)

DATA_ADAPTER = "PUSH"


@dataclass
class Kept:
    """A subscription: its request, with what has changed since."""

    device: str
    base: tuple[str, ...]
    format: str
    status: str = "ACTIVE"


@dataclass
class MemoryDesk:
    """Keeps devices and subscriptions as the specification says. Ids count up: d1, d2, s1, s2.

    A test may have every call wait for `gate`, or take a while, or fail with `failure`.
    """

    devices: dict[tuple[str, str, str], str] = field(default_factory=dict)
    subscriptions: dict[str, Kept] = field(default_factory=dict)
    badges: dict[str, int] = field(default_factory=dict)
    # Which devices a session has registered, and every request in the order in which it was carried out.
    registered: dict[str, set[str]] = field(default_factory=dict)
    done: list[tuple[str, PushControl]] = field(default_factory=list)
    begun: int = 0
    gate: asyncio.Event | None = None
    failure: Exception | None = None

    async def _begin(self, session: Session, request: PushControl) -> None:
        self.begun += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        device = getattr(request, "device", None)
        if device is not None and device not in self.registered.get(session.id, ()):
            raise PushRefusal(PushReason.DEVICE, f"{device} is not registered in this session")
        self.done.append((session.id, request))

    async def carry_out(self, session: Session, request: PushControl, answer: Callable[[Sequence[str]], None]) -> None:
        if isinstance(request, RegisterDevice):
            answer(await self._register(session, request))
        elif isinstance(request, ActivatePush):
            answer((await self._activate(session, request),))
        elif isinstance(request, ReconfigurePush):
            await self._reconfigure(session, request)
            answer(())
        elif isinstance(request, DeactivatePush):
            answer(await self._deactivate(session, request))
        else:
            assert isinstance(request, ResetBadge)
            await self._reset_badge(session, request)
            answer(())

    async def _register(self, session: Session, request: RegisterDevice) -> tuple[str, str]:
        await self._begin(session, request)
        key = request.platform, request.application, request.token
        device = self.devices.get(key)
        if device is None:
            device = f"d{len(self.badges) + 1}"
            self.badges[device] = 0
        else:
            del self.devices[key]
        self.devices[request.platform, request.application, request.new_token or request.token] = device
        self.registered.setdefault(session.id, set()).add(device)
        return device, DATA_ADAPTER

    async def _reset_badge(self, session: Session, request: ResetBadge) -> None:
        await self._begin(session, request)
        self.badges[request.device] = 0

    async def _activate(self, session: Session, request: ActivatePush) -> str:
        await self._begin(session, request)
        base = (*_flow(request), request.trigger or "")
        kept = Kept(request.device, base, request.format)
        if request.subscription is not None:
            if request.coalescing:
                raise PushRefusal(PushReason.CONFLICT, "PN_coalescing and PN_subscriptionId exclude each other")
            self._find(request.device, request.subscription)
            self.subscriptions[request.subscription] = kept
            return request.subscription
        if request.coalescing:
            for name, other in self.subscriptions.items():
                if (other.device, other.base) == (request.device, base):
                    self.subscriptions[name] = kept
                    return name
        name = f"s{sum(isinstance(each, ActivatePush) for _, each in self.done)}"
        self.subscriptions[name] = kept
        return name

    async def _reconfigure(self, session: Session, request: ReconfigurePush) -> None:
        await self._begin(session, request)
        kept = self._find(request.device, request.subscription)
        if kept.base[:-1] != _flow(request):
            raise PushRefusal(PushReason.MISMATCH, f"{request.subscription} follows something else")
        kept.format = kept.format if request.format is None else request.format
        kept.base = kept.base if request.trigger is None else (*_flow(request), request.trigger)
        kept.status = "ACTIVE"

    async def _deactivate(self, session: Session, request: DeactivatePush) -> Sequence[str]:
        await self._begin(session, request)
        if request.subscription is not None:
            self._find(request.device, request.subscription)
        gone = [
            name
            for name, kept in self.subscriptions.items()
            if kept.device == request.device
            and request.subscription in (None, name)
            and request.status in (None, kept.status)
        ]
        for name in gone:
            del self.subscriptions[name]
        return gone

    def _find(self, device: str, name: str) -> Kept:
        kept = self.subscriptions.get(name)
        if kept is None or kept.device != device:
            raise PushRefusal(PushReason.SUBSCRIPTION, f"{name} is not a subscription of {device}")
        return kept


def _flow(request: ActivatePush | ReconfigurePush) -> tuple[str, ...]:
    return request.data_adapter, request.group, request.schema, request.mode
