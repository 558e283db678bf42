"""The Ditto door as one object: loads things and policies from the disk, and serves them.

What clients can ask for is in `service`. The state of things is saved beside the journal every minute, before files of
the journal are dropped, and at the end. Read next: docs/ditto.md, "Durability".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter

from penstock.config import Config
from penstock.doors.ditto.change_log import JournalChangeLog
from penstock.doors.ditto.expiries import Expiries
from penstock.doors.ditto.http import ditto_routes
from penstock.doors.ditto.identity import DittoIdentity, Judge
from penstock.doors.ditto.items import Items, Sets
from penstock.doors.ditto.models import ModelStore
from penstock.doors.ditto.openapi.document import MoreRoutes
from penstock.doors.ditto.past import HistoryReader
from penstock.doors.ditto.saved_state import load_state, records_after, save_state
from penstock.doors.ditto.search_writer import SearchWriter
from penstock.doors.ditto.service import TwinService
from penstock.doors.ditto.token_integrations import TokenIntegrations
from penstock.doors.ditto.websocket import Sockets
from penstock.doors.errors import DoorError
from penstock.journal.errors import Expired
from penstock.journal.gatherer import Gatherer
from penstock.journal.reader import JournalReader
from penstock.kernel.ledger import Ledger
from penstock.log import get
from penstock.store.search_index import SearchIndex
from penstock.transport.http import HttpConnection
from penstock.transport.locality import Locality
from penstock.twins.names import EntityKey, TwinNames
from penstock.twins.registry import RegistrySettings, Twins
from penstock.twins.state import rebuilt
from penstock.twins.wot.validation import Aspect, ModelRules
from penstock.wire.http1 import HttpRequest

log = get(__name__)

# Seconds between two saves of the state of all things.
SAVE_PAUSE = 60.0

# Threads that read histories. Further histories wait, because each keeps a CPU busy.
HISTORY_THREADS = 4

# Threads that read Thing Models, apart from those of histories, because a host that hangs keeps one for seconds.
MODEL_THREADS = 4


@dataclass(frozen=True, slots=True)
class AdapterSets:
    """The adapter sets that are being served, as this door needs them."""

    judge_of: Callable[[str], Judge | None]
    has_adapter: Callable[[str, str], bool]


class DittoDoor:
    """Made on the event loop; `open` before the adapter sets, `close` after them and before the journal."""

    def __init__(
        self,
        config: Config,
        gatherer: Gatherer,
        history: HistoryReader,
        sets: AdapterSets,
        ports: Callable[[], Collection[int]],
        ledger: Ledger | None = None,
        data_dir: Path | None = None,
    ) -> None:
        """`ports` are those that the server has got at its listeners for HTTP, once they are open.

        What waits for clients is counted in `ledger`, together with what waits at other doors. The search index is in
        `data_dir`, or in the database that the configuration names; with neither there is none.
        """
        loop = asyncio.get_running_loop()
        self._config = config.ditto
        self._gatherer = gatherer
        self.history = history
        self._executor = ThreadPoolExecutor(HISTORY_THREADS, thread_name_prefix="ditto-history")
        self._saving: asyncio.Task[None] | None = None
        self._save_lock = asyncio.Lock()
        # The last record that the saved state includes.
        self._saved = -1
        names = TwinNames()
        self._model_executor = ThreadPoolExecutor(MODEL_THREADS, thread_name_prefix="ditto-models")
        models = ModelStore(_places(self._config.wot_models), self._model_executor, self._config.wot_cache_seconds)
        rules = ModelRules(
            models.has_model,
            self._config.wot_skeletons,
            self._config.wot_optional_defaults,
            tuple(map(Aspect, self._config.wot_enforce)),
            tuple(map(Aspect, self._config.wot_forbid)),
        )
        kept = tuple([name.lower() for name in self._config.historical_headers])
        known = Sets(sets.judge_of, sets.has_adapter, names.adapter_set)
        self.twins = Twins(
            JournalChangeLog(gatherer.journal, loop.call_soon_threadsafe),
            lambda: time.time_ns() // 1000,
            _not_taken,
            RegistrySettings(
                names=names,
                reserved=known.is_reserved,
                shared_policies=_shared(self._config.namespace_policies),
                expiry_granularity=self._config.expiry_granularity_seconds * 1_000_000,
                models=rules,
            ),
        )
        locality = Locality.of(config, ports)
        self.identity = DittoIdentity(
            sets.judge_of,
            self._config.adapter_set,
            self._config.issuer,
            locality.includes,
            pre_authenticated=self._config.pre_authenticated_header.lower(),
        )
        items = Items(known, self.identity, gatherer, history, self._executor)
        named = self._config.search_store
        self.search_writer = (
            SearchWriter(self.twins, lambda: SearchIndex.open(named, data_dir or Path()), time.monotonic)
            if named or data_dir is not None
            else None
        )
        self.service = TwinService(
            self.twins,
            names,
            self.identity,
            items,
            history,
            self._executor,
            ledger,
            kept,
            search_writer=self.search_writer,
            models=models if self._config.wot_models else None,
            model_rules=rules,
            base=self._config.wot_base.rstrip("/"),
        )
        self.expiries = Expiries(self.twins, self.service.live, self.service.now)
        self._integrations = TokenIntegrations(self.service, self._config.token_integration_subject)
        self._sockets = Sockets(self.service)
        # Of others below the same root; there before the API port opens.
        self.more_routes: MoreRoutes | None = None
        self._names = names

    async def open(self) -> None:
        """Load all things; raises DoorError."""
        try:
            await asyncio.to_thread(self._restore)
        except Expired as expired:
            raise DoorError(
                f"the saved state of things is too old: {expired}; restore twins.state in the journal's directory"
            ) from expired
        self._saving = asyncio.get_running_loop().create_task(self._save_often())
        if self.search_writer is not None:
            self.search_writer.start()
        self.expiries.start()

    def _restore(self) -> None:
        journal = self._gatherer.journal
        state = load_state(journal.disk)
        self._saved = state.sequence
        try:
            self.twins.restore(state, records_after(JournalReader(journal.disk), self._names, state.sequence))
        except Expired as expired:
            log.warning("the saved state of things is lost or too old: rebuilt from the lake", reason=str(expired))
            found = rebuilt(self.history, self._names, state, journal.committed)
            for entity, revision in found.unknown.items():
                log.error("the beginning of a history is lost, its state is unknown", entity=entity, revision=revision)
            self.twins.restore(found.state, ())

    @property
    def sockets(self) -> int:
        """WebSockets that are open."""
        return len(self._sockets.open)

    def routes(self) -> APIRouter:
        """What it serves over HTTP."""
        return ditto_routes(self.service, self._config.default_namespace, self._integrations, self.more_routes)

    def take_over(self, connection: HttpConnection, request: HttpRequest) -> None:
        """Open a WebSocket; raises HttpError if there is none for this request."""
        self._sockets.take_over(connection, request)

    # -- the saved state -------------------------------------------------------------------------------------------

    async def save(self) -> None:
        """Save the state of all things, if anything has changed. If it raises OSError, the old one is still there."""
        async with self._save_lock:
            state = self.twins.capture()
            if state.sequence > self._saved:
                await asyncio.to_thread(save_state, self._gatherer.journal.disk, state)
                self._saved = state.sequence

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(SAVE_PAUSE)
            try:
                await self.save()
            except OSError as error:
                log.error("the state of things is not saved; the journal has it all", reason=str(error))

    # -- the end ---------------------------------------------------------------------------------------------------

    def retire(self) -> None:
        """Endless streams end soon; called before the API port closes."""
        self.service.is_closing = True

    async def close(self) -> None:
        """Save the state a last time; nobody may send a command any more."""
        self.expiries.close()
        if self.search_writer is not None:
            await self.search_writer.close()
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.wait([self._saving])
            self._saving = None
            try:
                await self.save()
            except OSError as error:
                log.error("the state of things is not saved; the journal has it all", reason=str(error))
        for executor in (self._executor, self._model_executor):
            executor.shutdown(wait=False, cancel_futures=True)


def _places(given: tuple[str, ...]) -> dict[str, Path | None]:
    """By prefix of addresses, the folder with the models; None if they are fetched."""
    found: dict[str, Path | None] = {}
    for text in given:
        prefix, _, folder = text.partition("=")
        found[prefix] = Path(folder) if folder else None
    return found


def _shared(given: tuple[str, ...]) -> dict[str, list[str]]:
    """By pattern of namespaces, the policies that are shared with all policies in them."""
    found: dict[str, list[str]] = {}
    for text in given:
        pattern, _, policy = text.partition("=")
        found.setdefault(pattern, []).append(policy)
    return found


def _not_taken(key: EntityKey) -> None:
    """A listener, or the receiver of an answer, has raised."""
    log.exception("an answer or an event of a twin could not be delivered", entity=key.id)


def check_users(name: str, judge_of: Callable[[str], Judge | None]) -> None:
    """Raise DoorError if the adapter set of this name exists and does not authenticate clients."""
    judge = judge_of(name) if name else None
    if judge is not None and not judge.vouches:
        raise DoorError(
            f"ditto.adapter_set = {name}: expected a set whose metadata adapter authenticates clients, such as"
            ' "access" with users or tokens'
        )
