"""An adapter set at work: its adapters started and stopped, each with its way into the kernel.

Optional data adapters are started in the background, and retried until they succeed.
Not here: where adapters come from (loading.py), how their methods are called (authority.py, source.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.adapters.api import Adapter, AdapterSet, DataAdapter
from penstock.adapters.authority import SetAuthority
from penstock.adapters.faults import CONTAINED
from penstock.adapters.inside import InsideAdapter
from penstock.adapters.publisher import Publisher
from penstock.adapters.roster import Member, Roster
from penstock.adapters.server import ServerHandle
from penstock.adapters.source import GuardedSource
from penstock.kernel.errors import Cause
from penstock.kernel.feed import Feed
from penstock.kernel.kernel import Kernel
from penstock.log import get

if TYPE_CHECKING:
    from penstock.certificates import Certificate
    from penstock.journal.gatherer import Gatherer
    from penstock.journal.recorder import JournalItemRecorder

log = get(__name__)

# Seconds until an optional data adapter is tried again: twice as long each time, up to the second.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0

# Seconds that the start of a set waits for its optional data adapters; slower ones come up after it.
PATIENCE = 2.0

NO_OPTIONAL: Mapping[str, Callable[[], DataAdapter]] = MappingProxyType({})


class StartFailure(Exception):
    """An adapter cannot be started; the text names it and the reason."""


class RunningSet:
    """Made on the event loop; `start` before the first client, `stop` after the last."""

    def __init__(
        self,
        kernel: Kernel,
        adapter_set: AdapterSet,
        optional: Mapping[str, Callable[[], DataAdapter]] = NO_OPTIONAL,
        gatherer: Gatherer | None = None,
        directory: Path | None = None,
        roster: Roster | None = None,
    ) -> None:
        """`optional` are data adapters yet to be made; making them may take time, so it is done on a thread.

        Without a `gatherer` nothing is journaled; without a `directory` adapters keep nothing. Whoever wants to know
        which adapters there are, and how they are, gives a `roster`.
        """
        self.name = adapter_set.name
        self.authority = SetAuthority(adapter_set)
        self._kernel = kernel
        self._set = adapter_set
        self._optional = optional
        self._gatherer = gatherer
        self._directory = directory
        self._has_metadata = False
        self._data: dict[str, DataAdapter] = {}
        self._sources: dict[str, GuardedSource] = {}
        # All that have been made, also those that are not up yet.
        self._made: dict[str, DataAdapter] = {}
        self._coming: list[asyncio.Task[None]] = []
        self._roster = roster or Roster()
        self._members: list[Member] = []

    async def start(self) -> None:
        """The metadata adapter first, then the data adapters in their order; those started are stopped if one fails."""
        try:
            await self._start_metadata()
            for name, adapter in self._set.data.items():
                await self._start_data(name, adapter)
            await self._start_optional()
            await self._wait_until_ready()
        except BaseException:
            await self.stop()
            raise

    async def keep_state(self) -> None:
        """See InsideAdapter."""
        for adapter in list(self._data.values()):
            if isinstance(adapter, InsideAdapter):
                await adapter.keep_state()

    async def _start_metadata(self) -> None:
        self._members.append(self._roster.add(self._set.metadata, self.name, calls=self.authority.calls))
        try:
            with CONTAINED:
                self._set.metadata.adapter_set = self.name
                self._set.metadata.attach(ServerHandle(self._kernel, self.name))
            await self.authority.start()
        except Exception as error:
            raise metadata_failure(self.name, error) from error
        self._has_metadata = True

    async def _start_data(self, name: str, adapter: DataAdapter) -> None:
        try:
            source, feed = self._attach(name, adapter)
            try:
                await source.start()
            except BaseException:
                source.discard()
                raise
        except Exception as error:
            raise data_failure(self.name, name, error) from error
        self._serve(name, adapter, source, feed)

    async def _wait_until_ready(self) -> None:
        """Only now: adapters may depend on one another, such as two that live in one remote process."""
        try:
            with CONTAINED:
                await self._set.metadata.wait_until_ready()
        except Exception as error:
            raise metadata_failure(self.name, error) from error
        for name, adapter in self._set.data.items():
            try:
                with CONTAINED:
                    await adapter.wait_until_ready()
            except Exception as error:
                raise data_failure(self.name, name, error) from error

    def _attach(self, name: str, adapter: DataAdapter) -> tuple[GuardedSource, Feed]:
        source = GuardedSource(self.name, name, adapter)
        self._made[name] = adapter
        # The kernel does not know it yet: nobody is to subscribe to an adapter that may not start.
        feed = Feed(self._kernel, self.name, name, source)
        with CONTAINED:
            adapter.attach(Publisher(feed, f"{self.name}/{name}"))
            recorder = feed.recorder = self._recorder(name)
            if isinstance(adapter, InsideAdapter):
                adapter.enter(feed)
                adapter.journal_to(recorder, self._directory)
        label = f"{self.name}/{name}"
        self._members.append(self._roster.add(adapter, label, name in self._optional, source.calls))
        return source, feed

    def _recorder(self, name: str) -> JournalItemRecorder | None:
        journaling = self._set.journal.get(name)
        if self._gatherer is None or journaling is None:
            return None
        from penstock.journal.recorder import JournalItemRecorder  # loaded with the journal, on its thread

        return JournalItemRecorder(self._gatherer, self.name, name, journaling.items, journaling.policy)

    def _serve(self, name: str, adapter: DataAdapter, source: GuardedSource, feed: Feed) -> None:
        self._data[name] = adapter
        self._sources[name] = source
        self._kernel.serve(feed)
        if feed.recorder is not None:
            for item in self._set.journal[name].names:
                feed.pin(item)

    # -- optional data adapters -----------------------------------------------------------------------------------

    async def _start_optional(self) -> None:
        first_tries = []
        for name, make in self._optional.items():
            self._roster.awaited.add(f"{self.name}/{name}")
            tried = asyncio.Event()
            self._coming.append(asyncio.create_task(self._bring_up(name, make, tried)))
            first_tries.append(asyncio.create_task(tried.wait()))
        if first_tries:
            _, late = await asyncio.wait(first_tries, timeout=PATIENCE)
            for waiting in late:
                waiting.cancel()

    async def _bring_up(self, name: str, make: Callable[[], DataAdapter], tried: asyncio.Event) -> None:
        """Once made, the same adapter is started again until it succeeds."""
        pauses = _pauses()
        while True:
            try:
                adapter = await asyncio.to_thread(make)
                source, feed = self._attach(name, adapter)
                break
            except Exception as error:
                await self._pause(name, error, next(pauses), tried)
        try:
            while True:
                try:
                    await source.start()
                    with CONTAINED:
                        await adapter.wait_until_ready()
                    break
                except Exception as error:
                    await self._pause(name, error, next(pauses), tried)
        except BaseException:
            source.discard()
            raise
        self._serve(name, adapter, source, feed)
        self._roster.awaited.discard(f"{self.name}/{name}")
        log.info("optional data adapter has started", adapter_set=self.name, adapter=name)
        tried.set()

    async def _pause(self, name: str, error: Exception, seconds: float, tried: asyncio.Event) -> None:
        log.warning(
            "optional data adapter has not started",
            adapter_set=self.name,
            adapter=name,
            reason=_reason(error),
            next_try_seconds=seconds,
        )
        tried.set()
        await asyncio.sleep(seconds)

    # -- the end --------------------------------------------------------------------------------------------------

    def data_adapter(self, name: str) -> DataAdapter | None:
        return self._data.get(name)

    def certificates(self) -> Iterator[tuple[str, Certificate]]:
        """Those that adapters show at listeners of their own, each under the name of the adapter's table."""
        adapters: dict[str, Adapter] = {f"data.{name}": one for name, one in self._made.items()}
        for name, adapter in {"metadata": self._set.metadata, **adapters}.items():
            certificate = adapter.listener_certificate()
            if certificate is not None:
                yield f"adapters.{self.name}.{name}", certificate

    def retire(self, message: str) -> None:
        """Admit nobody any more and end all sessions of the set; `stop` is next."""
        self.authority.retired = True
        self._kernel.turn()
        for session in self._kernel.attended_sessions(self.name):
            session.close(Cause.CLOSED_BY_SERVER, message)

    async def stop(self) -> None:
        """Stop all that has been started."""
        for task in self._coming:
            task.cancel()
        if self._coming:
            await asyncio.wait(self._coming)
        for name, source in self._sources.items():
            self._kernel.withdraw(self.name, name)
            await source.stop()
        self._sources.clear()
        if self._gatherer is not None:
            # A successor may record the same items under another policy, which must not overtake what is recorded.
            self._gatherer.flush()
        if self._has_metadata:
            await self.authority.stop()
            self._has_metadata = False
        for member in self._members:
            self._roster.remove(member)
        self._members.clear()
        self._roster.awaited.difference_update([f"{self.name}/{name}" for name in self._optional])


def _pauses() -> Iterator[float]:
    seconds = FIRST_PAUSE
    while True:
        yield seconds
        seconds = min(seconds * 2, LONGEST_PAUSE)


def metadata_failure(adapter_set: str, error: Exception) -> StartFailure:
    return StartFailure(f"metadata adapter of set {adapter_set} failed: {_reason(error)}")


def data_failure(adapter_set: str, name: str, error: Exception) -> StartFailure:
    return StartFailure(f"data adapter {name} of set {adapter_set} failed: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
