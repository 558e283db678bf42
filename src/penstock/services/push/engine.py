"""The engine of push notifications: decisions are made, persisted together, then applied; what is due is sent.

One task commits, one sends, one renews the lease (`lease`). Nothing is in memory that is not in the database, except
notifications without a trigger. What is decided is in `penstock.push`; who asks is in `desk` and `watches`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

from penstock.kernel.ports import State
from penstock.log import get
from penstock.push.flows import Fired
from penstock.push.ports import Handover, Provider, Verdict
from penstock.push.records import Device, DropDevice, Flow, Notification, PushChange
from penstock.push.refusals import PushRefusal
from penstock.push.registry import PushDecision
from penstock.push.sending import ApplicationKey, Gone, Outcome
from penstock.push.settings import PushSettings
from penstock.services.push.agenda import Agenda, PushPart
from penstock.services.push.away import AWAY, AWAY_PAUSE, first_line, unanswered, unavailable
from penstock.services.push.flights import Flights
from penstock.services.push.lease import PushLease
from penstock.services.push.memory import PushMemory, changes_of
from penstock.services.push.records import SentRecords
from penstock.services.push.watches import Watches
from penstock.store.errors import AlreadyExists, Deposed, NoSuchRecord, NotOwner, StoreError
from penstock.store.push import LoadedDevices, PushStore
from penstock.store.thread import StoreThread

log = get(__name__)

# Changes that are applied before everybody else has a turn, where very many come at once.
APPLIED_PER_TURN = 1_000
# Seconds without anything to send after which it is looked at all the same, because clocks can be set.
LONGEST_NAP = 60.0

T = TypeVar("T")


class PushEngine:
    """Opened with a store; `close` when nobody asks any more."""

    def __init__(
        self,
        settings: PushSettings,
        providers: Mapping[ApplicationKey, Provider],
        join: Callable[[], PushStore],
        thread: StoreThread,
        records: SentRecords,
        new_id: Callable[[], str],
        clock: Callable[[], int],
        max_sends: int,
        renew_seconds: float,
    ) -> None:
        """`join` blocks, and is called on the store's thread; `clock` is in milliseconds since 1970."""
        self.settings = settings
        self.flights = Flights(providers, clock, self.wake)
        self.memory = PushMemory(settings, new_id)
        self.clock = clock
        # Set by the service: who follows items, and who is told of changes.
        self.watches: Watches | None = None
        self.tell: Callable[[Sequence[PushChange]], None] = _nobody
        # Called now and then.
        self.tidy: Callable[[], None] = _nothing
        self._new_id = new_id
        self._join = join
        self._thread = thread
        # None until it is opened.
        self.store: PushStore | None = None
        self.lease = PushLease(self, thread, renew_seconds)
        self._records = records
        self._max_sends = max_sends
        self._agenda = Agenda()
        # Of notifications that were sent; whenever something is written these are too.
        self._drops: list[PushChange] = []
        # Devices of which it is not known whether the last changes were written.
        self._unsure: set[str] = set()
        self._to_commit = asyncio.Event()
        self._to_send = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        # Whether the database did not answer when it was last asked.
        self.away = False
        self.sent_bytes = 0
        self.most_devices = 0
        # Of notifications in a memory that has been thrown away since.
        self._past_sent = 0
        self._past_lost = 0

    # -- its life cycle -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read everything, and begin; raises what the store raises."""
        await self._load()
        loop = asyncio.get_running_loop()
        for work in (self._commit_forever, self._send_forever, self.lease.renew_forever):
            self._tasks.append(loop.create_task(_guarded(work)))

    async def close(self) -> None:
        """Send nothing new, wait a little for what is on its way, persist what is known of it, and leave."""
        self._stopping = True
        await self.flights.close()
        if not self.away:
            await self.settled()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._agenda.refuse(unanswered())
        try:
            if self.store is not None:
                await self._thread.call(self.store.leave)
        except (StoreError, *AWAY) as error:
            log.warning("the database of push notifications was not closed properly", reason=first_line(error))

    async def settled(self) -> None:
        """Until all that has been decided and fired so far is persisted, or cannot be now."""
        while self._agenda or self._drops:
            with suppress(PushRefusal):
                await self.decide((), lambda: PushDecision((), None))
            if self.away:
                return

    async def _load(self) -> None:
        """Become a node, and read all that it has."""
        if self.watches is not None:
            self.watches.end_all()
        self._past_sent, self._past_lost = self.sent, self.lost
        self.memory = PushMemory(self.settings, self._new_id)
        self._unsure.clear()
        self.store = await self._thread.call(self._join)
        await self.take_over(await self._thread.call(self.store.load))
        await self.lease.adopt(self.store)

    async def take_over(self, loaded: LoadedDevices) -> None:
        """Have devices in memory that are this node's."""
        changes = changes_of(loaded)
        while part := list(islice(changes, APPLIED_PER_TURN)):
            self._apply(part)
            await asyncio.sleep(0)

    def serving(self) -> bool:
        """Whether this node may send: another may have its devices otherwise."""
        return self.store is not None and self.store.lease_left() > 0 and not self._stopping

    @property
    def sent(self) -> int:
        """Notifications that providers have accepted."""
        return self._past_sent + self.memory.sender.sent

    @property
    def lost(self) -> int:
        """Notifications that were dropped without being delivered."""
        return self._past_lost + sum(self.memory.sender.lost.values())

    # -- what others ask for --------------------------------------------------------------------------------------

    async def decide(
        self,
        subjects: Iterable[Hashable],
        decide: Callable[[], PushDecision[T]],
        answer: Callable[[T], None] | None = None,
    ) -> T:
        """Decide, persist and apply; raises PushRefusal, and has changed nothing then.

        `subjects` are the devices and tokens that it is about: no other decision about them is made meanwhile. `answer`
        is called with the result before anybody else is told of it.
        """
        done = self._agenda.ask(subjects, decide, answer)
        self._to_commit.set()
        result: T = await done
        return result

    def update(self, flow: Flow, state: State) -> None:
        """An update of something that is watched."""
        self.fire(self.memory.book.update(flow, state, self.clock()))
        if self.memory.book.next_due() is not None:
            self._to_send.set()

    def fire(self, fired: Sequence[Fired]) -> None:
        if fired:
            self._agenda.fire(fired)
            self._to_commit.set()

    def wake(self) -> None:
        """The clock has been set, or something may be due for another reason."""
        self._to_send.set()

    def busy(self) -> set[str]:
        """Devices with a notification on its way, or a trigger that has fired: others would not know of it."""
        return self._agenda.triggered() | self.flights.devices()

    def renewed(self) -> None:
        """The lease goes on, and the database answers."""
        self.away = False
        self._to_send.set()
        self.tidy()
        if self.watches is not None:
            self.watches.retry()

    def mended(self, applications: Iterable[ApplicationKey]) -> None:
        """Credentials have been read again: what was held back is tried."""
        for application in applications:
            self.memory.sender.mended(application, self.clock())
        self._to_send.set()

    # -- committing -----------------------------------------------------------------------------------------------

    async def _commit_forever(self) -> None:
        while True:
            await self._to_commit.wait()
            self._to_commit.clear()
            while self._agenda or self._drops:
                if not await self._commit():
                    await asyncio.sleep(AWAY_PAUSE)

    async def _commit(self) -> bool:
        """One transaction; False if the database is away."""
        if self._unsure and not await self._make_sure():
            self._agenda.refuse(unanswered())
            return False
        return await self._persist(self._agenda.take(self.memory.book))

    async def _persist(self, parts: Sequence[PushPart]) -> bool:
        """Write all parts together, and apply them; False if the database is away."""
        drops, self._drops = self._drops, []
        changes = [*drops, *(change for part in parts for change in part.changes)]
        try:
            if changes:
                await self._write(changes)
        except AWAY as error:
            self._drops = [*drops, *self._drops]
            self._unsure |= self.memory.devices_of(changes)
            self._not_written(parts, self.not_answering(error))
            return False
        except Deposed:
            self._not_written(parts, unavailable("another server has taken over; register the device again"))
            await self.begin_again()
            return True
        except StoreError as error:
            return await self._persist_alone(parts, drops, error)
        if changes:
            self.away = False
        for part in parts:
            self._done(part)
        return True

    async def _persist_alone(self, parts: Sequence[PushPart], drops: list[PushChange], error: StoreError) -> bool:
        """One part is at fault: each by itself."""
        if not parts:
            # Notifications of devices that are another's now.
            return True
        if len(parts) == 1 and not drops:
            self._refused(parts[0], error)
            return True
        store = self.store
        self._drops = [*drops, *self._drops]
        is_there = await self._persist(())
        for part in parts:
            if self.store is store:
                is_there = await self._persist((part,)) and is_there
            else:
                self._not_written((part,), unavailable("another server has taken over; register the device again"))
        return is_there

    async def _write(self, changes: Sequence[PushChange]) -> None:
        assert self.store is not None
        await self._thread.call(self.store.write, changes)

    def _done(self, part: PushPart) -> None:
        """It is in the database."""
        self._apply(part.changes, part)
        if part.job is None:
            self._follow(self.memory.sender.put(part.result, self.clock()))
            self._to_send.set()
        elif not part.job.done.done():
            part.job.done.set_result(part.result)

    def _not_written(self, parts: Sequence[PushPart], refusal: PushRefusal) -> None:
        """The database is away: those who ask are refused, what a trigger has fired waits."""
        for part in parts:
            if part.job is not None:
                part.job.refuse(refusal)
                continue
            self._agenda.fire_again([each for each in part.fired if each.subscription.trigger is not None])
            # These need no database, but for the count of a badge.
            self._follow(self.memory.sender.put(part.result, self.clock()))
            self._to_send.set()

    def _refused(self, part: PushPart, error: StoreError) -> None:
        """The database does not take it: another node has the device, or the token was taken at the same moment."""
        if isinstance(error, NotOwner):
            self.forget(error.devices)
        if part.job is None:
            self._agenda.fire_again(part.fired)
        else:
            text = "another server has registered the device in the meantime; try again"
            part.job.refuse(unavailable(text if isinstance(error, AlreadyExists | NotOwner) else str(error)))

    async def _make_sure(self) -> bool:
        """Read devices again of which it is not known what was written; False if the database is still away."""
        assert self.store is not None
        for device in sorted(self._unsure):
            try:
                loaded = await self._thread.call(self.store.claim, device)
            except NoSuchRecord:
                loaded = None
            except Deposed:
                await self.begin_again()
                return True
            except AWAY as error:
                self.not_answering(error)
                return False
            self.forget((device,))
            if loaded is not None:
                await self.take_over(loaded)
            self._unsure.discard(device)
        self._agenda.renew(self.memory.registry)
        self.away = False
        return True

    async def begin_again(self) -> None:
        """Others have taken the devices of this node: start as a new one."""
        log.warning("another server has taken over the devices of this one; all are read again")
        while True:
            try:
                await self._load()
                return
            except (StoreError, *AWAY) as error:
                self.not_answering(error)
                await asyncio.sleep(AWAY_PAUSE)

    def not_answering(self, error: Exception) -> PushRefusal:
        if not self.away:
            log.error("the database of push notifications does not answer", reason=first_line(error))
        self.away = True
        return unanswered()

    # -- memory ---------------------------------------------------------------------------------------------------

    def _apply(self, changes: Sequence[PushChange], part: PushPart | None = None) -> None:
        """Have it in memory, answer whoever has asked for it, and tell everybody else."""
        if changes:
            self._remember(changes)
        if part is not None:
            part.answer()
        if changes:
            self.tell(changes)
            self._to_send.set()

    def _remember(self, changes: Sequence[PushChange]) -> None:
        applied, outcome = self.memory.apply(changes, self.clock())
        if self.watches is not None:
            for flow in applied.ended:
                self.watches.end(flow)
            for flow in applied.begun:
                self.watches.begin(flow)
        for subscription, reason in applied.unusable:
            log.warning("a push subscription cannot be followed", subscription=subscription.id, reason=reason)
        self.most_devices = max(self.most_devices, self.memory.registry.device_count)
        self._follow(outcome)

    def forget(self, devices: Iterable[str]) -> None:
        """Devices that are another's now, or are to be read again; their sessions are told nothing."""
        applied, _ = self.memory.apply([DropDevice(device) for device in devices], self.clock())
        if self.watches is not None:
            for flow in applied.ended:
                self.watches.end(flow)

    def _follow(self, outcome: Outcome) -> None:
        """What follows from something that happened to notifications."""
        if outcome.changes:
            self._drops += outcome.changes
            self._to_commit.set()
        for lost in outcome.lost:
            self._records.lost(lost)
        gone = outcome.gone
        if gone is not None:
            self.flights.begin(gone.device, self._suspend(gone))

    async def _suspend(self, gone: Gone) -> None:
        registry = self.memory.registry
        try:
            await self.decide((gone.device,), lambda: registry.suspend(gone.device, gone.token, self.clock()))
        except PushRefusal as refusal:
            # The next notification finds it out again.
            log.warning("a device cannot be suspended", device=gone.device, reason=refusal.text)
        else:
            log.info("a device is suspended", device=gone.device, reason=gone.reason)

    # -- sending --------------------------------------------------------------------------------------------------

    async def _send_forever(self) -> None:
        while True:
            self._to_send.clear()
            pause = LONGEST_NAP
            if self.serving():
                pause = self._send_due()
            elif not self._stopping:
                pause = AWAY_PAUSE
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._to_send.wait()

    def _send_due(self) -> float:
        """Send what is due; returns the seconds until something is again."""
        now = self.clock()
        self.fire(self.memory.book.due(now))
        round = self.memory.sender.due(now, self._max_sends)
        self._follow(round.outcome)
        for notification, device in round.send:
            self.flights.begin(device.id, self._send(notification, device))
        times = [self.memory.book.next_due(), self.memory.sender.next_due()]
        due = min([time for time in times if time is not None], default=None)
        return LONGEST_NAP if due is None else min(max(0.0, (due - now) / 1000), LONGEST_NAP)

    async def _send(self, notification: Notification, device: Device) -> None:
        sender = self.memory.sender
        handover = await self.flights.hand_over(notification, device)
        if handover.verdict is Verdict.ACCEPTED:
            self.sent_bytes += len(notification.payload.encode())
        self._records.handed_over(notification, device, handover)
        self._follow(sender.handed_over(notification, handover, self.clock()))

    async def send_test(self, device_id: str, payload: str) -> Handover:
        """Send something to a device at once, outside of all queues; raises PushRefusal if there is no such device."""
        device = self.memory.registry.known_device(device_id)
        now = self.clock()
        notification = Notification(self._new_id(), device.id, "test", payload, now, now + 60_000, lasting=False)
        return await self.flights.hand_over(notification, device)


def _nobody(changes: Sequence[PushChange]) -> None:
    """Nobody is told."""


def _nothing() -> None:
    """There is nothing to tidy."""


async def _guarded(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """One of the tasks that must go on, whatever happens to a single round."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("push notifications: a task has failed and is started again")
            await asyncio.sleep(AWAY_PAUSE)
