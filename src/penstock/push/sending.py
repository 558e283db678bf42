"""Which notification goes to its provider when, and what becomes of it after the provider has answered.

A device gets one at a time, in their order, with a least delay between them; one that failed is tried again, later each
time, until its time to live has passed. So a device that is slow or gone holds up no other. An application with wrong
credentials is held back as a whole, and one whose provider hangs takes no more than its own places. Not here: what is
sent (`flows`), and the providers themselves (`ports`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias
from zlib import crc32

from penstock.push.ports import Handover, Verdict
from penstock.push.records import (
    Device,
    DropDevice,
    DropNotification,
    Notification,
    Platform,
    PushChange,
    SaveDevice,
    SaveNotification,
)
from penstock.push.registry import DeviceRegistry

# Retries of many devices are spread by up to this part of the wait, because they have failed together.
SPREAD = 4

ApplicationKey: TypeAlias = tuple[Platform, str]


class Loss(Enum):
    """Why a notification was given up."""

    TOO_LARGE = "too large"
    OVERFLOW = "too many waiting"
    EXPIRED = "expired"
    REFUSED = "refused"
    GONE = "device gone"


@dataclass(frozen=True, slots=True)
class Lost:
    notification: Notification
    loss: Loss
    # For logs and people.
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The provider says that a device does not exist: `DeviceRegistry.suspend` is to be called with these."""

    device: str
    token: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from something that happened, in this order."""

    # To be persisted. If that is lost in a crash, a notification is sent twice.
    changes: tuple[PushChange, ...] = ()
    lost: tuple[Lost, ...] = ()
    gone: Gone | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """What is to be sent now, each to the token of its device; `Sender.handed_over` wants an answer for each."""

    send: tuple[tuple[Notification, Device], ...]
    outcome: Outcome


class _Line:
    """What waits for one device. It stays a while after the last one, because the next has to wait."""

    __slots__ = ("device", "failures", "flight", "gone", "not_before", "parked", "token", "tried", "waiting", "wakes")

    def __init__(self, device: str) -> None:
        self.device = device
        self.waiting: deque[Notification] = deque()
        # On its way to the provider, and the token that it was sent to.
        self.flight: Notification | None = None
        self.token = ""
        # Nothing is sent earlier.
        self.not_before = 0
        # Id of the notification that was sent last, and how often that has failed.
        self.tried = ""
        self.failures = 0
        # Whether the provider has said so of the token. It ends when the device is registered again.
        self.gone = False
        # When it is looked at next; None while it is in flight or parked.
        self.wakes: int | None = None
        # Held back with its application, or waits for a place.
        self.parked = False


class _Held:
    """An application whose credentials are wrong. Now and then one notification finds out whether they still are."""

    __slots__ = ("lines", "probe", "reason", "tries")

    def __init__(self, reason: str, tries: int) -> None:
        self.reason = reason
        # When the next one is tried.
        self.tries = tries
        # Id of the notification that is tried.
        self.probe: str | None = None
        self.lines: deque[_Line] = deque()


class _Tally:
    """Changes and losses, as they come."""

    __slots__ = ("changes", "lost")

    def __init__(self) -> None:
        self.changes: list[PushChange] = []
        self.lost: list[Lost] = []

    def outcome(self, gone: Gone | None = None) -> Outcome:
        return Outcome(tuple(self.changes), tuple(self.lost), gone)


class Sender:
    """The notifications that are to be sent to the devices of a registry."""

    __slots__ = (
        "_crowds",
        "_flights",
        "_heap",
        "_held",
        "_lines",
        "_numbers",
        "_paused",
        "_places",
        "_registry",
        "lost",
        "retried",
        "sent",
        "waiting_count",
    )

    def __init__(self, registry: DeviceRegistry) -> None:
        self._registry = registry
        self._lines: dict[str, _Line] = {}
        # Lines by when they are looked at; an entry counts if it says the same time as its line.
        self._heap: list[tuple[int, int, _Line]] = []
        self._numbers = count()
        self._held: dict[ApplicationKey, _Held] = {}
        # What is on its way, by the notifications' ids; how much of each application; who waits for a place there.
        self._flights: dict[str, ApplicationKey] = {}
        self._places: Counter[ApplicationKey] = Counter()
        self._crowds: dict[ApplicationKey, deque[_Line]] = {}
        # Devices to which nothing is sent now.
        self._paused: frozenset[str] = frozenset()
        # Accepted by providers; attempts that failed and were tried again; and given up.
        self.sent = 0
        self.retried = 0
        self.lost = dict.fromkeys(Loss, 0)
        # Neither accepted nor given up so far.
        self.waiting_count = 0

    @property
    def held(self) -> dict[ApplicationKey, str]:
        """Applications that are held back, and why: somebody has to mend their credentials."""
        return {application: held.reason for application, held in self._held.items()}

    def waiting(self, device: str) -> tuple[Notification, ...]:
        """Those of a device that have not been accepted or given up."""
        line = self._lines.get(device)
        if line is None:
            return ()
        return (*line.waiting,) if line.flight is None else (line.flight, *line.waiting)

    # -- what comes in --------------------------------------------------------------------------------------------

    def apply(self, changes: Iterable[PushChange], now: int) -> Outcome:
        """Changes that have been persisted, and applied to the registry before."""
        tally = _Tally()
        for change in changes:
            match change:
                case SaveNotification(notification):
                    self._put(notification, now, tally)
                case DropDevice(id):
                    self.waiting_count -= len(self.waiting(id))
                    self._lines.pop(id, None)
                case SaveDevice(device):
                    line = self._lines.get(device.id)
                    if line is not None:
                        line.gone = False
                        if line.wakes is not None:
                            self._wake(line, now)
        return tally.outcome()

    def put(self, notifications: Iterable[Notification], now: int) -> Outcome:
        """Notifications that are not persisted."""
        tally = _Tally()
        for notification in notifications:
            self._put(notification, now, tally)
        return tally.outcome()

    def _put(self, notification: Notification, now: int, tally: _Tally) -> None:
        device = self._registry.device(notification.device)
        if device is None:
            return
        self.waiting_count += 1
        application = self._registry.settings.application(device.key)
        size = len(notification.payload.encode())
        if application is not None and size > application.max_payload:
            most = application.max_payload
            self._lose(notification, Loss.TOO_LARGE, f"it has {size} bytes; {most} are allowed", tally)
            return
        line = self._lines.get(device.id)
        if line is None:
            line = self._lines[device.id] = _Line(device.id)
        line.waiting.append(notification)
        if len(line.waiting) > self._registry.settings.queue_per_device:
            self._drop_useless(line, now, tally)
            self._make_room(line, tally)
        self._wake_idle(line, now)

    def pause(self, devices: Iterable[str], now: int) -> None:
        """Send nothing new to these, and again to others that were paused."""
        before, self._paused = self._paused, frozenset(devices)
        for device in before - self._paused:
            line = self._lines.get(device)
            if line is not None:
                self._wake_idle(line, now)

    def _make_room(self, line: _Line, tally: _Tally) -> None:
        """Those of triggers stay, also beyond the limit: each subscription has one until a client changes it."""
        most = self._registry.settings.queue_per_device
        if len(line.waiting) <= most:
            return
        for place, each in enumerate(line.waiting):
            if not each.lasting:
                del line.waiting[place]
                self._lose(each, Loss.OVERFLOW, f"no more than {most} can wait for a device", tally)
                return

    def mended(self, application: ApplicationKey, now: int) -> None:
        """Credentials have been changed: try again what was held back."""
        held = self._held.pop(application, None)
        if held is not None:
            for line in held.lines:
                line.parked = False
                self._wake(line, now)

    # -- what goes out --------------------------------------------------------------------------------------------

    def due(self, now: int, most: int | None = None) -> Round:
        """What is to be sent now; it is in flight from then on, `most` of one application at most."""
        tally = _Tally()
        send: list[tuple[Notification, Device]] = []
        for held in self._held.values():
            # Those that have nothing to try are passed over.
            while held.lines and held.probe is None and held.tries <= now:
                self._look_again(held.lines, now, most, send, tally)
        for application, crowd in self._crowds.items():
            while crowd and (most is None or self._places[application] < most):
                self._look_again(crowd, now, most, send, tally)
        while self._heap and self._heap[0][0] <= now:
            wakes, _, line = heappop(self._heap)
            if line.wakes == wakes:
                line.wakes = None
                self._look(line, now, most, send, tally)
        return Round(tuple(send), tally.outcome())

    def _look_again(
        self, parked: deque[_Line], now: int, most: int | None, send: list[tuple[Notification, Device]], tally: _Tally
    ) -> None:
        line = parked.popleft()
        line.parked = False
        self._look(line, now, most, send, tally)

    def next_due(self) -> int | None:
        """When `due` has something to do again, if nothing comes in or back before."""
        while self._heap and self._heap[0][2].wakes != self._heap[0][0]:
            heappop(self._heap)
        times = [held.tries for held in self._held.values() if held.lines and held.probe is None]
        if self._heap:
            times.append(self._heap[0][0])
        return min(times, default=None)

    def _look(
        self, line: _Line, now: int, most: int | None, send: list[tuple[Notification, Device]], tally: _Tally
    ) -> None:
        device = self._registry.device(line.device)
        if device is None or self._lines.get(line.device) is not line or line.device in self._paused:
            return
        self._drop_useless(line, now, tally)
        away = line.gone or not self._registry.serves(device.id)
        if away:
            self._keep_lasting(line, "the device is suspended", tally)
        if now < line.not_before:
            self._wake(line, line.not_before)
            return
        if not line.waiting:
            del self._lines[line.device]
            return
        if away:
            # It may be registered again before they expire.
            self._wake(line, min(each.expires_millis for each in line.waiting))
            return
        application = (device.key.platform, device.key.application)
        if most is not None and self._places[application] >= most:
            line.parked = True
            self._crowds.setdefault(application, deque()).append(line)
            return
        held = self._held.get(application)
        if held is not None:
            if held.probe is not None or now < held.tries:
                line.parked = True
                held.lines.append(line)
                return
            held.probe = line.waiting[0].id
        settings = self._registry.settings.application(device.key)
        assert settings is not None
        line.flight = line.waiting.popleft()
        if line.flight.id not in self._flights:
            self._flights[line.flight.id] = application
            self._places[application] += 1
        line.token = device.key.token
        if line.tried != line.flight.id:
            line.tried, line.failures = line.flight.id, 0
        line.not_before = now + settings.min_send_delay_millis
        send.append((line.flight, device))

    def _drop_useless(self, line: _Line, now: int, tally: _Tally) -> None:
        """What has expired, and what belongs to subscriptions that are gone: their clients do not want it any more."""
        kept: deque[Notification] = deque()
        for each in line.waiting:
            if each.expires_millis <= now:
                self._lose(each, Loss.EXPIRED, "its time to live has passed", tally)
            elif self._registry.subscription(each.subscription) is None:
                self._finish(each, tally)
            else:
                kept.append(each)
        line.waiting = kept

    def _wake_idle(self, line: _Line, now: int) -> None:
        """Unless something will wake it anyway."""
        if line.flight is None and line.wakes is None and not line.parked:
            self._wake(line, max(now, line.not_before))

    def _wake(self, line: _Line, millis: int) -> None:
        line.wakes = millis
        heappush(self._heap, (millis, next(self._numbers), line))

    # -- what comes back ------------------------------------------------------------------------------------------

    def handed_over(self, notification: Notification, handover: Handover, now: int) -> Outcome:
        """The provider's answer for a notification that `due` has given out."""
        tally = _Tally()
        flown = self._flights.pop(notification.id, None)
        if flown is not None:
            self._places[flown] -= 1
        line = self._lines.get(notification.device)
        device = self._registry.device(notification.device)
        if line is None or device is None or line.flight is None or line.flight.id != notification.id:
            # The device was dropped, or became one with another; its notifications went with it.
            self._forget_probe(notification)
            return tally.outcome()
        line.flight = None
        application = (device.key.platform, device.key.application)
        gone: Gone | None = None
        match handover.verdict:
            case Verdict.ACCEPTED:
                self.sent += 1
                self._finish(notification, tally)
            case Verdict.REFUSED:
                self._lose(notification, Loss.REFUSED, handover.reason, tally)
            case Verdict.RETRY:
                self._retry(line, notification, handover, now, tally)
            case Verdict.GONE:
                line.waiting.appendleft(notification)
                if line.token == device.key.token:
                    line.gone = True
                    gone = Gone(device.id, line.token, handover.reason)
                    self._keep_lasting(line, handover.reason, tally)
            case Verdict.CREDENTIALS:
                line.waiting.appendleft(notification)
                tries = now + self._registry.settings.credentials_retry_millis
                held = self._held.setdefault(application, _Held(handover.reason, tries))
                held.reason, held.tries = handover.reason, tries
        if handover.verdict in (Verdict.RETRY, Verdict.CREDENTIALS):
            self._forget_probe(notification)
        else:
            # The provider has looked at the notification itself, so it takes the credentials.
            self.mended(application, now)
        self._wake(line, max(now, line.not_before))
        return tally.outcome(gone)

    def _retry(self, line: _Line, notification: Notification, handover: Handover, now: int, tally: _Tally) -> None:
        settings = self._registry.settings
        wait = min(settings.first_retry_millis << min(line.failures, 32), settings.longest_retry_millis)
        wait += crc32(notification.id.encode()) % (wait // SPREAD + 1)
        if handover.retry_after is not None:
            wait = max(wait, int(handover.retry_after * 1_000))
        line.not_before = max(line.not_before, now + wait)
        if line.not_before >= notification.expires_millis:
            self._lose(notification, Loss.EXPIRED, handover.reason, tally)
        else:
            line.failures += 1
            self.retried += 1
            line.waiting.appendleft(notification)

    def _keep_lasting(self, line: _Line, reason: str, tally: _Tally) -> None:
        """Those of triggers wait for the device to be registered again, as long as they live."""
        kept: deque[Notification] = deque()
        for each in line.waiting:
            if each.lasting:
                kept.append(each)
            else:
                self._lose(each, Loss.GONE, reason, tally)
        line.waiting = kept

    def _forget_probe(self, notification: Notification) -> None:
        for held in self._held.values():
            if held.probe == notification.id:
                held.probe = None

    def _lose(self, notification: Notification, loss: Loss, reason: str, tally: _Tally) -> None:
        self.lost[loss] += 1
        tally.lost.append(Lost(notification, loss, reason))
        self._finish(notification, tally)

    def _finish(self, notification: Notification, tally: _Tally) -> None:
        self.waiting_count -= 1
        if notification.lasting:
            tally.changes.append(DropNotification(notification.id))
