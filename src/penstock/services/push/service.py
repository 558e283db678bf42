"""Push notifications as a service, if they are enabled: the database, the providers, the engine, the desk.

What they do is in `engine` and `desk`; routes for administrators are in `administration`. Read next: docs/push.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from penstock.adapters.api import AdapterSet
from penstock.config import Config
from penstock.kernel.kernel import Kernel
from penstock.log import get
from penstock.monitor.figures import Family, Kind, counter, gauge, labelled
from penstock.services.errors import StartError
from penstock.services.journal import JournalService
from penstock.services.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.adapters.authority import SetAuthority
    from penstock.providers.ports import ReloadableProvider
    from penstock.push.registry import PushDecision
    from penstock.push.sending import ApplicationKey
    from penstock.services.push.desk import Desk
    from penstock.services.push.engine import PushEngine
    from penstock.store.push import PushStore
    from penstock.store.store import Store, StoreFence
    from penstock.store.thread import StoreThread

log = get(__name__)

MINUTE = 60.0
MILLIS = 1_000
NANOS_PER_MILLI = 1_000_000

# A lease is renewed so often that two attempts may fail before it ends.
RENEWALS_PER_LEASE = 4

# Devices that are looked at in one search for those that nobody uses, before everybody else has a turn.
SEARCHED_PER_TURN = 5_000


def wall_millis() -> int:
    """The time of day, in milliseconds since 1970."""
    return time.time_ns() // NANOS_PER_MILLI


class PushService(Service):
    """Opened after the adapter sets, whose items it follows, and before the doors, whose clients ask its desk."""

    name = "push"

    def __init__(
        self,
        config: Config,
        data_dir: Path | None,
        kernel: Kernel,
        journal: JournalService,
        authority_of: Callable[[str], SetAuthority | None],
        fence: StoreFence | None = None,
        clock: Callable[[], int] = wall_millis,
    ) -> None:
        """`fence`: see `Store.open`."""
        self._config = config
        self._fence = fence
        self._data_dir = data_dir
        self._kernel = kernel
        self._journal = journal
        self._clock = clock
        # None: push notifications are disabled.
        self.desk: Desk | None = None
        # There while it is open.
        self.engine: PushEngine | None = None
        self._thread: StoreThread | None = None
        self._providers: dict[ApplicationKey, ReloadableProvider] = {}
        self._collector: asyncio.Task[None] | None = None
        if config.push.enabled:
            # Here and not at the top: most servers have none of it, and need not wait for it.
            from penstock.services.push.desk import Desk

            self.desk = Desk(kernel, authority_of, config.push.data_adapter)

    def complete(self, adapter_set: AdapterSet) -> AdapterSet:
        """The same set with the data adapter of devices and their subscriptions."""
        if self.desk is None:
            return adapter_set
        from penstock.adapters.push import PushAdapter

        name = self._config.push.data_adapter
        if name in adapter_set.data:
            raise StartError(f"push.data_adapter: expected another name: adapter set {adapter_set.name} has {name}")
        return replace(adapter_set, data={**adapter_set.data, name: PushAdapter(self.desk)})

    # -- its life cycle -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        if self.desk is None:
            return
        from penstock.services.push.engine import PushEngine
        from penstock.services.push.records import SentRecords
        from penstock.services.push.settings import settings_of, triggers_of
        from penstock.services.push.watches import Watches
        from penstock.store.thread import StoreThread

        section = self._config.push
        self.desk.triggers = triggers_of(section)
        self._providers = await asyncio.to_thread(self._made_providers)
        store, node = await asyncio.to_thread(self._opened)
        self._thread = StoreThread(store)
        engine = PushEngine(
            settings_of(section, self._providers),
            self._providers,
            partial(_joined, store, node, section.lease_seconds * MILLIS),
            self._thread,
            SentRecords(lambda: self._journal.gatherer if section.journal else None),
            lambda: str(uuid4()),
            self._clock,
            section.max_sends,
            section.lease_seconds / RENEWALS_PER_LEASE,
        )
        engine.watches = Watches(self._kernel, engine.update)
        engine.tell = self.desk.tell
        engine.tidy = self.desk.forget_closed
        try:
            await engine.open()
        except BaseException as error:
            engine.watches.close()
            await self._close()
            raise _unopened(error) if isinstance(error, Exception) else error from error
        self.engine = self.desk.engine = engine
        self._collector = asyncio.get_running_loop().create_task(self._collect_forever())

    async def drain(self) -> None:
        """The doors have drained: nobody asks any more."""
        engine, self.engine = self.engine, None
        if engine is None or self.desk is None:
            return
        self.desk.engine = None
        if self._collector is not None:
            self._collector.cancel()
        assert engine.watches is not None
        engine.watches.close()
        await engine.close()
        await self._close()

    async def _close(self) -> None:
        for provider in self._providers.values():
            try:
                await provider.close()
            except Exception:
                log.exception("a provider could not be closed", application=provider.application)
        assert self._thread is not None
        await self._thread.close()

    async def reload(self) -> None:
        """Read credentials again; those that are not right are logged, and the ones before stay in use."""
        from penstock.providers.errors import ProviderError

        for (platform, application), provider in self._providers.items():
            try:
                await asyncio.to_thread(provider.reload)
            except ProviderError as error:
                log.error(
                    "new credentials rejected, the old ones stay in use",
                    platform=platform.value,
                    application=application,
                    reason=str(error),
                )
        if self.engine is not None:
            self.engine.mended(self._providers)
        if self.desk is not None:
            self.desk.read_keys()

    def _opened(self) -> tuple[Store, str]:
        """The database and the name of this node in it. Blocks: not for an event loop."""
        from penstock.store.errors import StoreError
        from penstock.store.node import node_name
        from penstock.store.opening import open_store

        try:
            return open_store(self._config.push.store, self._data_dir, self._fence), node_name(self._data_dir)
        except (StoreError, OSError) as error:
            raise _unopened(error) from error

    def _made_providers(self) -> dict[ApplicationKey, ReloadableProvider]:
        from penstock.providers.catalogue import make_providers
        from penstock.providers.errors import ProviderError

        try:
            return dict(make_providers(self._config.push, self._data_dir))
        except ProviderError as error:
            raise StartError(str(error)) from error

    def mount(self, application: FastAPI) -> None:
        """Safari's web service, if there is a site for it. Anybody may ask, because Safari has no login."""
        if self.desk is None:
            return
        from starlette.requests import Request
        from starlette.responses import Response

        from penstock.providers.catalogue import safari_service

        service = safari_service(self._providers)
        if service is None:
            return

        async def answer(request: Request) -> Response:
            found = service.answer(request.method, f"/{request.path_params['rest']}", await request.body())
            return Response(found.body, found.status, media_type=found.content_type)

        path = f"{self._config.push.safari_path.rstrip('/')}/{{rest:path}}"
        application.add_route(path, answer, ["GET", "POST", "DELETE"], include_in_schema=False)

    # -- devices that nobody uses ---------------------------------------------------------------------------------

    async def _collect_forever(self) -> None:
        while True:
            await asyncio.sleep(self._config.push.collector_period_minutes * MINUTE)
            try:
                await self.collect()
            except Exception:
                log.exception("the search for devices that nobody uses has failed")

    async def collect(self) -> int:
        """Delete devices that nobody uses any more; how many."""
        from penstock.push.refusals import PushRefusal

        engine, desk = self.engine, self.desk
        if engine is None or desk is None:
            return 0
        count = 0
        everything = engine.memory.registry.device_ids()
        for start in range(0, len(everything), SEARCHED_PER_TURN):
            part = everything[start : start + SEARCHED_PER_TURN]
            found = engine.memory.registry.collect(self._clock(), desk.devices_in_use(), part).result
            if found:
                decide = partial(_collected, engine, desk, self._clock, found)
                try:
                    gone = await engine.decide(found, decide)
                    count += len(gone)
                except PushRefusal as refusal:
                    log.warning("unused devices could not be deleted", reason=refusal.text)
            await asyncio.sleep(0)
        if count:
            log.info("unused devices deleted", devices=count)
        return count

    # -- its part in the server -----------------------------------------------------------------------------------

    def degradations(self) -> list[str]:
        engine = self.engine
        if engine is None:
            return []
        held = [f"push application {name}" for _, name in sorted(engine.memory.sender.held)]
        return [*(["push database"] if engine.away else []), *held]

    def figures(self) -> Iterable[Family]:
        engine = self.engine
        if engine is None or engine.watches is None:
            return ()
        memory = engine.memory
        losses = {loss.value: count for loss, count in memory.sender.lost.items()}
        return (
            gauge("penstock_push_devices", "Devices that this server serves.", memory.registry.device_count),
            gauge("penstock_push_devices_most", "Maximum number of devices so far.", engine.most_devices),
            gauge("penstock_push_subscriptions", "Subscriptions of devices.", memory.registry.subscription_count),
            gauge(
                "penstock_push_flows",
                "Different combinations of adapter, items, fields and mode that subscriptions follow.",
                engine.watches.count,
            ),
            gauge(
                "penstock_push_flows_waiting",
                "Those of them that cannot be followed now, because their data adapter is missing or their items are "
                "in use in another mode.",
                engine.watches.waiting,
            ),
            counter("penstock_push_fired", "Updates that triggered a notification.", memory.book.fired),
            counter("penstock_push_notifications", "Notifications that providers have accepted.", engine.sent),
            counter(
                "penstock_push_notification_bytes",
                "Bytes of notifications that providers have accepted.",
                engine.sent_bytes,
            ),
            counter("penstock_push_retries", "Failed attempts that were repeated.", memory.sender.retried),
            labelled(
                Kind.COUNTER,
                "penstock_push_notifications_lost",
                "Notifications that were dropped without being delivered.",
                "loss",
                losses,
            ),
            gauge("penstock_push_waiting", "Notifications that wait or are being sent.", memory.sender.waiting_count),
            gauge(
                "penstock_push_applications_held",
                "Applications that are on hold because their provider does not accept their credentials.",
                len(memory.sender.held),
            ),
            gauge(
                "penstock_push_database_up", "1 if the database of push notifications answers, else 0.", not engine.away
            ),
        )


def _collected(
    engine: PushEngine, desk: Desk, clock: Callable[[], int], found: tuple[str, ...]
) -> PushDecision[tuple[str, ...]]:
    """Those of the found that still nobody uses."""
    return engine.memory.registry.collect(clock(), desk.devices_in_use(), found)


def _joined(store: Store, node: str, lease_millis: int) -> PushStore:
    from penstock.store.push import PushStore

    return PushStore.join(store, node, lease_millis)


def _unopened(error: Exception) -> StartError:
    from penstock.store.opening import reason

    return error if isinstance(error, StartError) else StartError(f"push.store: {reason(error)}")
