"""The desk: what clients ask for about devices and subscriptions, checked, granted, decided, and persisted.

The door parses and answers (`penstock.doors.tlcp.push`); the rules decide (`penstock.push`); the metadata adapter of
the session's set grants items and fields, and has the last word. Specification: General Concepts 5.3 and 5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from penstock.adapters.authority import SetAuthority
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import AttendedSession, DeviceFacts, Grant, PlainWish, PushFacts
from penstock.providers.ports import KeyedProvider
from penstock.push import arguments
from penstock.push.format import Format
from penstock.push.format import names as format_names
from penstock.push.ports import Provider
from penstock.push.records import Device, DeviceKey, Flow, Platform, PushChange, PushSubscription, SubscriptionStatus
from penstock.push.refusals import PushReason, PushRefusal
from penstock.push.registry import check_length, check_mode
from penstock.push.requests import Activation, Keep, Reconfiguration
from penstock.push.sending import ApplicationKey
from penstock.push.trigger.pattern import RegularExpression
from penstock.push.trigger.trigger import Trigger
from penstock.services.push.engine import PushEngine
from penstock.wire.tlcp.push import (
    ActivatePush,
    DeactivatePush,
    PushControl,
    ReconfigurePush,
    RegisterDevice,
    ResetBadge,
)

# Named arguments of a format and a trigger: the metadata adapter is asked about each.
MAX_NAMES = 100

N = TypeVar("N", int, float)
PushAnswer = Callable[[Sequence[str]], None]
Patterns = Mapping[ApplicationKey, Sequence[RegularExpression]]


class Desk:
    """One for all doors. It knows which session has registered which device: the latest, one at a time."""

    def __init__(
        self,
        kernel: Kernel,
        authority_of: Callable[[str], SetAuthority | None],
        data_adapter: str,
    ) -> None:
        # There while the module is open.
        self.engine: PushEngine | None = None
        self._kernel = kernel
        self._authority_of = authority_of
        # The triggers that each application accepts.
        self.triggers: Patterns = {}
        self._data_adapter = data_adapter
        # The sessions that have registered a device, by their ids, each with that of its device.
        self._registered: dict[str, tuple[AttendedSession, str]] = {}
        self._listeners: list[tuple[Callable[[Sequence[PushChange]], None], Callable[[], None]]] = []

    @property
    def _engine(self) -> PushEngine:
        if self.engine is None:
            raise PushRefusal(PushReason.UNAVAILABLE, "push notifications are not available now")
        return self.engine

    # -- what the adapter of devices looks at ---------------------------------------------------------------------

    def device(self, id: str) -> Device | None:
        return None if self.engine is None else self.engine.memory.registry.device(id)

    def subscription(self, id: str) -> PushSubscription | None:
        return None if self.engine is None else self.engine.memory.registry.subscription(id)

    def subscriptions(self, device: str) -> Sequence[PushSubscription]:
        return () if self.engine is None else self.engine.memory.registry.subscriptions(device)

    def has_registered(self, session: str, device: str) -> bool:
        found = self._registered.get(session)
        return found is not None and device == found[1]

    def public_key(self, site: str) -> str | None:
        provider = None if self.engine is None else self.engine.flights.providers.get((Platform.WEB, site))
        return provider.public_key if isinstance(provider, KeyedProvider) else None

    def listen(self, tell: Callable[[Sequence[PushChange]], None], read_keys: Callable[[], None]) -> Callable[[], None]:
        listener = (tell, read_keys)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, changes: Sequence[PushChange]) -> None:
        """Those who listen are told what has been changed."""
        for tell, _ in self._listeners:
            tell(changes)

    def read_keys(self) -> None:
        """Those who listen are told that keys of sites may be others now."""
        for _, read_keys in self._listeners:
            read_keys()

    # -- sessions -------------------------------------------------------------------------------------------------

    def forget_closed(self) -> None:
        """Forget sessions that are gone."""
        for id in [id for id, (session, _) in self._registered.items() if session.closed]:
            del self._registered[id]

    def devices_in_use(self) -> frozenset[str]:
        """Those that a session has registered."""
        self.forget_closed()
        return frozenset(device for _, device in self._registered.values())

    # -- what clients ask for -------------------------------------------------------------------------------------

    async def carry_out(self, session: AttendedSession, request: PushControl, answer: PushAnswer) -> None:
        if isinstance(request, RegisterDevice):
            await self._register(session, request, answer)
        elif isinstance(request, ActivatePush):
            await self._activate(session, request, answer)
        elif isinstance(request, ReconfigurePush):
            await self._reconfigure(session, request, answer)
        elif isinstance(request, DeactivatePush):
            await self._deactivate(session, request, answer)
        else:
            assert isinstance(request, ResetBadge)
            await self._reset_badge(session, request, answer)

    # -- devices --------------------------------------------------------------------------------------------------

    async def _register(self, session: AttendedSession, request: RegisterDevice, answer: PushAnswer) -> None:
        key = DeviceKey(Platform(request.platform), request.application, request.token)
        provider = self._provider(key)
        new_token = request.new_token
        for token in (request.token, new_token):
            if token is not None:
                self._check_token(provider, token)
        authority = self._authority(session)
        facts = _facts(key)
        await authority.register_device(session, facts)
        if new_token is not None and new_token != request.token:
            await authority.change_device_token(session, facts, new_token)
        subjects: list[object] = []
        engine = self._engine
        for each in _keys(key, new_token):
            await engine.lease.find(each)
            known = engine.memory.registry.find(each)
            subjects += [each] if known is None else [each, known.id]

        def registered(device: Device) -> None:
            self._registered[session.id] = (session, device.id)
            answer((device.id, self._data_adapter))

        await engine.decide(
            subjects,
            lambda: engine.memory.registry.register(key, new_token, engine.clock(), engine.memory.lasting),
            registered,
        )

    def adopt(self, session: AttendedSession, device: str) -> None:
        """The session has registered the device before this desk was there."""
        self._registered[session.id] = (session, device)

    def _provider(self, key: DeviceKey) -> Provider:
        provider = self._engine.flights.providers.get((key.platform, key.application))
        if provider is None:
            raise PushRefusal(
                PushReason.APPLICATION,
                f"there is no application {key.application[:60]!r} of {key.platform.value} here",
            )
        return provider

    def _check_token(self, provider: Provider, token: str) -> None:
        check_length("device's token", token, self._engine.settings.max_token_length)
        provider.check_token(token)

    def _own_device(self, session: AttendedSession, device: str) -> Device:
        """Raises PushRefusal unless the session has registered it, and it is still there."""
        if not self.has_registered(session.id, device):
            raise PushRefusal(PushReason.DEVICE, f"the device {device[:60]!r} has not been registered in this session")
        return self._engine.memory.registry.known_device(device)

    async def _reset_badge(self, session: AttendedSession, request: ResetBadge, answer: PushAnswer) -> None:
        device = self._own_device(session, request.device)
        engine = self._engine
        await engine.decide(
            (device.id,),
            lambda: engine.memory.registry.reset_badge(device.id, engine.clock()),
            lambda device: answer(()),
        )

    # -- subscriptions --------------------------------------------------------------------------------------------

    async def _activate(self, session: AttendedSession, request: ActivatePush, answer: PushAnswer) -> None:
        device = self._own_device(session, request.device)
        check_mode(request.mode)
        self._check_lengths(request.format, request.trigger)
        wish = PlainWish(request.data_adapter, request.group, request.schema, request.mode, snapshot=False)
        authority = self._authority(session)
        grant = await self._granted(authority, session, wish)
        flow = Flow(
            session.adapter_set,
            request.data_adapter,
            request.group,
            request.schema,
            request.mode,
            tuple([item.name for item in grant.items]),
            grant.fields,
        )
        self._check_free(flow)
        names = [*format_names(request.format), *arguments.names(request.trigger or "")]
        positions = await self._positions(authority, session, wish, flow, names)
        format = self._format(device, request.format, flow, positions)
        trigger = None
        if request.trigger is not None:
            trigger = self._trigger(device, request.trigger, flow, positions)
        activation = Activation(
            flow,
            format,
            trigger,
            _lowest([_buffer_size(request), *[item.max_buffer_size for item in grant.items]]),
            _lowest([request.max_frequency, *[item.max_frequency for item in grant.items]]),
            request.subscription,
            request.coalescing,
        )
        facts = _push_facts(flow, format, trigger, activation.buffer_size, activation.max_frequency)
        await authority.activate_push(session, _facts(device.key), facts)
        engine = self._engine
        await engine.decide(
            (device.id,),
            lambda: engine.memory.registry.activate(device.id, activation, engine.clock()),
            lambda made: answer((made.id,)),
        )

    async def _reconfigure(self, session: AttendedSession, request: ReconfigurePush, answer: PushAnswer) -> None:
        device = self._own_device(session, request.device)
        existing = self._engine.memory.registry.own_subscription(device.id, request.subscription)
        flow = existing.flow
        change = Reconfiguration(
            request.subscription,
            session.adapter_set,
            request.data_adapter,
            request.group,
            request.schema,
            request.mode,
            request.format,
            request.trigger,
            request.max_frequency if request.changes_frequency else Keep.KEEP,
        )
        engine = self._engine
        # First, because the arguments mean nothing if it is about something else.
        engine.memory.registry.reconfigure(device.id, replace(change, format=None, trigger=None), engine.clock())
        self._check_lengths(request.format, request.trigger)
        authority = self._authority(session)
        wish = PlainWish(request.data_adapter, request.group, request.schema, request.mode, snapshot=False)
        names = [
            *(() if request.format is None else format_names(request.format)),
            *arguments.names(request.trigger or ""),
        ]
        positions = await self._positions(authority, session, wish, flow, names)
        if request.format is not None:
            change = replace(change, format=self._format(device, request.format, flow, positions))
        if request.trigger:
            change = replace(change, trigger=self._trigger(device, request.trigger, flow, positions))
        facts = _push_facts(
            flow,
            existing.format if change.format is None else change.format,
            existing.trigger if change.trigger is None else change.trigger or None,
            existing.buffer_size,
            existing.max_frequency if isinstance(change.max_frequency, Keep) else change.max_frequency,
        )
        await authority.activate_push(session, _facts(device.key), facts)
        await engine.decide(
            (device.id,),
            lambda: engine.memory.registry.reconfigure(device.id, change, engine.clock()),
            lambda changed: answer(()),
        )

    async def _deactivate(self, session: AttendedSession, request: DeactivatePush, answer: PushAnswer) -> None:
        device = self._own_device(session, request.device)
        status = None if request.status is None else SubscriptionStatus(request.status)
        engine = self._engine
        await engine.decide(
            (device.id,),
            lambda: engine.memory.registry.deactivate(device.id, request.subscription, status, engine.clock()),
            answer,
        )

    # -- what is granted ------------------------------------------------------------------------------------------

    def _authority(self, session: AttendedSession) -> SetAuthority:
        authority = self._authority_of(session.adapter_set)
        if authority is None:
            raise Refusal(Reason.UNKNOWN_SESSION, "The adapter set of the session has been removed")
        return authority

    def _check_lengths(self, format: str | None, trigger: str | None) -> None:
        """Before anything is read of them; what they become is checked again."""
        settings = self._engine.settings
        for name, text, most in (
            ("notification format", format, settings.max_format_length),
            ("trigger", trigger, settings.max_trigger_length),
        ):
            if text is not None:
                check_length(name, text, most)

    async def _granted(self, authority: SetAuthority, session: AttendedSession, wish: PlainWish) -> Grant:
        if wish.data_adapter == self._data_adapter:
            raise Refusal(Reason.DATA_ADAPTER, f"Items of {wish.data_adapter} cannot be pushed")
        grant = await authority.examine(session, wish)
        for item in grant.items:
            if item.customizer is not None:
                # What the metadata adapter hides from this session must not come by another way.
                raise Refusal(
                    Reason.GROUP, f"Item {item.name[:60]} is customized for this session: it cannot be pushed"
                )
        return grant

    def _check_free(self, flow: Flow) -> None:
        """Raise a Refusal if there is no such data adapter, or one of the items is in use in another mode."""
        feed = self._kernel.feed(flow.adapter_set, flow.data_adapter)
        for name in flow.items:
            item = feed.items.get(name)
            if item is not None:
                item.check_mode(Mode(flow.mode))

    async def _positions(
        self, authority: SetAuthority, session: AttendedSession, wish: PlainWish, flow: Flow, names: Iterable[str]
    ) -> dict[str, int]:
        """Which field each name is, from 1: the metadata adapter takes the name for a schema of one field."""
        positions: dict[str, int] = {}
        wanted = dict.fromkeys(names)
        if len(wanted) > MAX_NAMES:
            raise PushRefusal(
                PushReason.ARGUMENT, f"there are {len(wanted)} different named arguments; {MAX_NAMES} are allowed"
            )
        for name in wanted:
            try:
                fields = (await authority.examine(session, replace(wish, schema=name))).fields
            except Refusal as refusal:
                if refusal.reason not in (Reason.SCHEMA, Reason.GROUP_FOR_SCHEMA) and refusal.code is None:
                    raise
                fields = ()
            if len(fields) != 1 or fields[0] not in flow.fields:
                raise PushRefusal(
                    PushReason.ARGUMENT, f"the name {name[:60]!r} is not that of one of the subscription's fields"
                )
            positions[name] = flow.fields.index(fields[0]) + 1
        return positions

    def _format(self, device: Device, text: str, flow: Flow, positions: Mapping[str, int]) -> str:
        provider = self._provider(device.key)
        format = Format.parse(text, len(flow.fields), provider.check_format, positions)
        size = len(format.text.encode())
        if size > provider.max_payload:
            # Arguments may be longer than what they stand for, but not by so much that this would be useful.
            raise PushRefusal(
                PushReason.PAYLOAD_TOO_LARGE,
                f"the notification format has {size} bytes; a notification can have {provider.max_payload}",
            )
        return format.text

    def _trigger(self, device: Device, text: str, flow: Flow, positions: Mapping[str, int]) -> str:
        count = len(flow.fields)
        converted = arguments.located("trigger", lambda: arguments.convert(text, positions, count))
        accept = self.triggers.get((device.key.platform, device.key.application), ())
        return Trigger.compile(converted, count, accept).text


def _keys(key: DeviceKey, new_token: str | None) -> list[DeviceKey]:
    return [key] if new_token is None or new_token == key.token else [key, replace(key, token=new_token)]


def _facts(key: DeviceKey) -> DeviceFacts:
    return DeviceFacts(key.platform.value, key.application, key.token)


def _push_facts(
    flow: Flow, format: str, trigger: str | None, buffer_size: int | None, max_frequency: float | None
) -> PushFacts:
    return PushFacts(
        flow.data_adapter,
        Mode(flow.mode),
        flow.group,
        flow.schema,
        flow.items,
        flow.fields,
        format,
        trigger,
        buffer_size,
        max_frequency,
    )


def _buffer_size(request: ActivatePush) -> int | None:
    """None: unlimited."""
    if request.buffer_size is None:
        return 1 if request.mode == "MERGE" else None
    return request.buffer_size or None


def _lowest(limits: Sequence[N | None]) -> N | None:
    return min([limit for limit in limits if limit is not None], default=None)
