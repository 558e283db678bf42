"""Subscriptions by what they follow: which of them an update fires, and what has to be persisted and sent then.

Subscriptions that wait for something are armed: active, of a device that is served. Thresholds are in a sorted index
(`thresholds`), other triggers are evaluated one by one (`trigger`), those without a trigger notify each update as far
as their frequency allows (`pace`). What is fired is fired once; what becomes of it is a decision, as in `registry`.
Specification: General Concepts 5.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count

from penstock.push.format import Format
from penstock.push.pace import Pace, Values
from penstock.push.records import (
    Device,
    DropDevice,
    DropSubscription,
    Flow,
    Notification,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveNotification,
    SaveSubscription,
    SubscriptionStatus,
)
from penstock.push.refusals import PushRefusal
from penstock.push.registry import DeviceRegistry
from penstock.push.thresholds import Reading, Relation, Threshold, Thresholds
from penstock.push.trigger.trigger import Trigger

# Formats that are kept ready to be filled in. Most subscriptions of an application have the same one.
READY_FORMATS = 4_096

_PLAIN = re.compile(r"Double\.parseDouble\(\$\[([0-9]{1,4})\]\) ([<>]=?) ([+-]?[0-9]{1,15}\.[0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class Fired:
    """A subscription that an update has fired, as it was then, with the values of the update."""

    subscription: PushSubscription
    values: Values
    millis: int


@dataclass(frozen=True, slots=True)
class Notified:
    """What becomes of what was fired: persist and apply the changes, then send."""

    changes: tuple[PushChange, ...]
    # Those that need not be persisted.
    passing: tuple[Notification, ...]
    # Subscriptions that cannot notify, and why.
    unusable: tuple[tuple[PushSubscription, str], ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """What has to be watched after changes, and what no more; and subscriptions that cannot be armed, and why."""

    begun: tuple[Flow, ...]
    ended: tuple[Flow, ...]
    unusable: tuple[tuple[PushSubscription, str], ...]


class _Followed:
    """The armed subscriptions of one flow, by id."""

    __slots__ = ("conditions", "thresholds", "unconditional")

    def __init__(self) -> None:
        self.thresholds = Thresholds()
        self.conditions: dict[str, Trigger] = {}
        # None: without a frequency limit.
        self.unconditional: dict[str, Pace | None] = {}

    def __bool__(self) -> bool:
        return bool(self.unconditional or self.conditions or len(self.thresholds))


class FlowBook:
    """All armed subscriptions of a registry, whose changes are applied through this one."""

    __slots__ = ("_flows", "_held", "_new_id", "_numbers", "_registry", "dropped", "fired")

    def __init__(self, registry: DeviceRegistry, new_id: Callable[[], str]) -> None:
        self._registry = registry
        self._new_id = new_id
        self._flows: dict[Flow, _Followed] = {}
        # Those that hold something, by when they may notify; the number decides between equal times.
        self._held: list[tuple[int, int, Pace]] = []
        self._numbers = count()
        # Events that have fired a subscription, and those that a full buffer has lost.
        self.fired = 0
        self.dropped = 0

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Those that have to be watched."""
        return tuple(self._flows)

    # -- updates --------------------------------------------------------------------------------------------------

    def update(self, flow: Flow, values: Values, now: int) -> list[Fired]:
        """What an update fires. A trigger that has fired is not armed any more."""
        followed = self._flows.get(flow)
        if followed is None:
            return []
        ids = followed.thresholds.fired(values)
        for id in ids:
            followed.thresholds.remove(id)
        if followed.conditions:
            met = [id for id, trigger in followed.conditions.items() if trigger.matches(values)]
            for id in met:
                del followed.conditions[id]
            ids += met
        for id, pace in followed.unconditional.items():
            if pace is None or pace.passes(now):
                ids.append(id)
            else:
                self._hold(pace, values)
        return [self._fire(id, values, now) for id in ids]

    def due(self, now: int) -> list[Fired]:
        """What was held, and may notify now."""
        fired = []
        while self._held and self._held[0][0] <= now:
            pace = heappop(self._held)[2]
            if not pace.ended:
                fired.append(self._fire(pace.subscription, pace.take(now), now))
                if pace.holds:
                    heappush(self._held, (pace.next_millis, next(self._numbers), pace))
        return fired

    def next_due(self) -> int | None:
        while self._held and self._held[0][2].ended:
            heappop(self._held)
        return self._held[0][0] if self._held else None

    def _hold(self, pace: Pace, values: Values) -> None:
        if not pace.holds:
            heappush(self._held, (pace.next_millis, next(self._numbers), pace))
        if pace.hold(values):
            self.dropped += 1

    def _fire(self, id: str, values: Values, now: int) -> Fired:
        self.fired += 1
        subscription = self._registry.subscription(id)
        # Nothing is armed that the registry does not have.
        assert subscription is not None
        return Fired(subscription, values, now)

    # -- notifications --------------------------------------------------------------------------------------------

    def notify(self, fired: Iterable[Fired]) -> Notified:
        """Decide what becomes of subscriptions that have fired, of any number of devices.

        It changes nothing, and can be asked again if the changes could not be persisted. The state TRIGGERED, the
        notification and the badge of the device are in the same list. What was changed since it fired, or has no
        device that is served any more, is left out: it is armed again, with the change or when the device comes back.
        """
        badges: dict[str, Device] = {}
        changes: list[PushChange] = []
        passing: list[Notification] = []
        unusable: list[tuple[PushSubscription, str]] = []
        # A trigger may have fired, been armed again with its device, and fired again before anything was persisted.
        triggered: set[str] = set()
        for each in fired:
            subscription = each.subscription
            device = badges.get(subscription.device) or self._registry.device(subscription.device)
            if (
                device is None
                or not self._registry.serves(device.id)
                or self._registry.subscription(subscription.id) is not subscription
                or subscription.id in triggered
            ):
                continue
            application = self._registry.settings.application(device.key)
            assert application is not None
            try:
                format = ready_format(subscription.format, len(subscription.flow.fields))
            except PushRefusal as refusal:
                unusable.append((subscription, refusal.text))
                continue
            if format.uses_badge:
                device = badges[device.id] = replace(device, badge=device.badge + 1)
            notification = Notification(
                self._new_id(),
                device.id,
                subscription.id,
                format.fill(each.values, device.badge),
                each.millis,
                each.millis + application.time_to_live_millis,
                lasting=subscription.trigger is not None,
            )
            if notification.lasting:
                triggered.add(subscription.id)
                after = replace(subscription, status=SubscriptionStatus.TRIGGERED, status_millis=each.millis)
                changes += (SaveSubscription(after), SaveNotification(notification))
            else:
                passing.append(notification)
        return Notified((*map(SaveDevice, badges.values()), *changes), tuple(passing), tuple(unusable))

    # -- changes --------------------------------------------------------------------------------------------------

    def apply(self, changes: Iterable[PushChange]) -> Applied:
        """Make changes that have been persisted, in the registry too, and arm what waits after them."""
        before: dict[Flow, bool] = {}
        unusable: list[tuple[PushSubscription, str]] = []
        registry = self._registry
        for change in changes:
            # All that may be armed otherwise after the change.
            match change:
                case SaveDevice(device):
                    served = registry.serves(device.id)
                    registry.apply((change,))
                    if registry.serves(device.id) == served:
                        continue
                    ids = [each.id for each in registry.subscriptions(device.id)]
                case DropDevice(id):
                    ids = [each.id for each in registry.subscriptions(id)]
                case SaveSubscription(subscription):
                    ids = [subscription.id]
                case DropSubscription(id):
                    ids = [id]
                case _:
                    continue
            for id in ids:
                old = registry.subscription(id)
                if old is not None:
                    before.setdefault(old.flow, old.flow in self._flows)
                    self._disarm(old)
            if not isinstance(change, SaveDevice):
                registry.apply((change,))
            for id in ids:
                new = registry.subscription(id)
                if new is not None:
                    before.setdefault(new.flow, new.flow in self._flows)
                    try:
                        self._arm(new)
                    except PushRefusal as refusal:
                        unusable.append((new, refusal.text))
        return Applied(
            tuple(flow for flow, was in before.items() if not was and flow in self._flows),
            tuple(flow for flow, was in before.items() if was and flow not in self._flows),
            tuple(unusable),
        )

    def _arm(self, subscription: PushSubscription) -> None:
        if subscription.status is not SubscriptionStatus.ACTIVE or not self._registry.serves(subscription.device):
            return
        flow = subscription.flow
        trigger: Trigger | None = None
        threshold: Threshold | None = None
        if subscription.trigger is not None:
            threshold = plain_threshold(subscription.trigger, len(flow.fields))
            if threshold is None:
                # It was accepted when it was activated.
                trigger = Trigger.compile(subscription.trigger, len(flow.fields), None)
                threshold = trigger.threshold
        followed = self._flows.get(flow)
        if followed is None:
            followed = self._flows[flow] = _Followed()
        if threshold is not None:
            followed.thresholds.add(subscription.id, threshold)
        elif trigger is not None:
            followed.conditions[subscription.id] = trigger
        else:
            pace: Pace | None = None
            if subscription.max_frequency is not None:
                most = self._registry.settings.max_buffer
                asked = subscription.buffer_size
                pace = Pace(subscription.id, subscription.max_frequency, most if asked is None else min(asked, most))
            followed.unconditional[subscription.id] = pace

    def _disarm(self, subscription: PushSubscription) -> None:
        followed = self._flows.get(subscription.flow)
        if followed is None:
            return
        followed.thresholds.remove(subscription.id)
        followed.conditions.pop(subscription.id, None)
        pace = followed.unconditional.pop(subscription.id, None)
        if pace is not None:
            pace.ended = True
        if not followed:
            del self._flows[subscription.flow]


def plain_threshold(text: str, field_count: int) -> Threshold | None:
    """What compiling the usual form of a trigger gives, without compiling it: after a restart there are many."""
    plain = _PLAIN.fullmatch(text)
    if plain is None or not 1 <= int(plain[1]) <= field_count:
        return None
    return Threshold(int(plain[1]) - 1, Reading.DOUBLE, Relation(plain[2]), float(plain[3]))


@lru_cache(READY_FORMATS)
def ready_format(text: str, field_count: int) -> Format:
    """A format as it is kept, ready to be filled in."""
    return Format.parse(text, field_count)
