"""The adapter sets that are served: those given for good, and those of the configuration, which a reload replaces.

One set at work is in `penstock.adapters.running`; how adapters are made is in `penstock.adapters.loading`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adapters.api import AdapterSet, DataAdapter
from penstock.adapters.authority import SetAuthority
from penstock.adapters.demo import demo_sets
from penstock.adapters.demo.token import kept_token
from penstock.adapters.ingest import add_ingest_routes
from penstock.adapters.introduction import Introduce, introduced
from penstock.adapters.loading import Loader, SetPlan
from penstock.adapters.roster import Member, Roster
from penstock.adapters.running import RunningSet, StartFailure
from penstock.adapters.trial import try_set
from penstock.config import Config, ConfigError
from penstock.config.checks import DEMO_SETS
from penstock.doors.reception import OpenSet
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import ClientFacts
from penstock.log import get
from penstock.monitor.figures import Family, Kind, gauge, labelled
from penstock.services.errors import StartError
from penstock.services.journal import JournalService
from penstock.services.service import Service, Shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

log = get(__name__)

# Figures of each adapter, and what they are called where calls are counted.
CALLS = {
    "calls": "calls",
    "call_failures": "failures",
    "call_seconds": "seconds",
    "calls_pending": "pending",
    "threads": "threads",
    "threads_busy": "busy",
    "thread_calls": "thread_calls",
    "wait_seconds": "wait_seconds",
}


@dataclass(frozen=True, slots=True)
class SetsChange:
    """What another configuration changes: names of sets, and those to be started."""

    new: list[str]
    changed: list[str]
    gone: list[str]
    plans: list[SetPlan]
    # The sets of that configuration by name, each with that which it is made from.
    tables: dict[str, object]


class SetsService(Service):
    """Doors see the sets in `open_sets`, and nothing that is not there."""

    name = "adapter sets"

    def __init__(
        self,
        config: Config,
        given: list[AdapterSet],
        loader: Loader | None,
        data_dir: Path | None,
        kernel: Kernel,
        journal: JournalService,
        roster: Roster,
        introductions: Sequence[Introduce],
        complete: Callable[[AdapterSet], AdapterSet],
        is_ready: Callable[[], bool],
        is_local: Callable[[ClientFacts], bool],
    ) -> None:
        """`complete` gives a set the data adapters that the server adds to every one; `is_local` tells clients on this
        machine from others.
        """
        self._config = config
        self._given = given
        self._loader = loader
        self._data_dir = data_dir
        self._kernel = kernel
        self._journal = journal
        self._roster = roster
        self._introductions = introductions
        self._complete = complete
        self._is_ready = is_ready
        self._is_local = is_local
        self.open_sets: dict[str, OpenSet] = {}
        self.running: dict[str, RunningSet] = {}
        # Those that a reload is about to start.
        self.coming: dict[str, asyncio.Task[None]] = {}
        # Who would decide for sets that have only been checked.
        self._tried: dict[str, SetAuthority] = {}
        # What each set of the configuration was made from.
        self._tables: dict[str, object] = {}
        # Sets that a reload could not start.
        self._broken: set[str] = set()
        # Called when sets have come or gone, if anybody wants to know.
        self.changed: Callable[[], None] | None = None

    # -- what others ask for --------------------------------------------------------------------------------------

    def judge_of(self, adapter_set: str) -> SetAuthority | None:
        """Who decides for a set that is served, or that has been checked."""
        running = self.running.get(adapter_set)
        return self._tried.get(adapter_set) if running is None else running.authority

    def made_from(self, adapter_set: str) -> object:
        """What a set of the configuration is made from; None for those that are given."""
        return self._tables.get(adapter_set)

    def has_adapter(self, adapter_set: str, name: str) -> bool:
        """Whether there is such a data adapter, or will be: one that is optional may not be up yet."""
        table = self._config.adapters.get(adapter_set)
        return (table is not None and name in table.data) or self.data_adapter(adapter_set, name) is not None

    def data_adapter(self, adapter_set: str, name: str) -> DataAdapter | None:
        """One of those that are running."""
        running = self.running.get(adapter_set)
        return None if running is None else running.data_adapter(name)

    def failures(self) -> list[str]:
        return [_named(member) for member in self._roster.members() if _is_fatal(member)]

    def degradations(self) -> list[str]:
        broken = [f"adapter set {name}" for name in sorted(self._broken)]
        members = [member for member in self._roster.members() if not _is_fatal(member) and member.trouble is not None]
        awaited = [f"data adapter {label}" for label in sorted(self._roster.awaited)]
        return [*broken, *[_named(member) for member in members], *awaited]

    def figures(self) -> Iterable[Family]:
        members = self._roster.members()
        troubled = {member.label: member.trouble is not None for member in members}
        troubled |= dict.fromkeys(self._roster.awaited, True)
        calls = {member.label: member.calls for member in members}
        feeds = {f"{set_name}/{name}": feed for (set_name, name), feed in self._kernel.feeds.items()}
        waiting = {
            member.label: member.adapter.publisher.waiting
            for member in members
            if isinstance(member.adapter, DataAdapter)
        }

        def of(kind: Kind, name: str, help: str, values: Mapping[str, float]) -> Family:
            return labelled(kind, f"penstock_adapter_{name}", help, "adapter", values)

        def sum_up(kind: Kind, name: str, help: str) -> Family:
            return of(kind, name, help, {label: getattr(tally, CALLS[name]) for label, tally in calls.items()})

        return (
            gauge(
                "penstock_adapters_troubled",
                "Adapters that have failed, cannot work at the moment, or have not started yet.",
                sum(troubled.values()),
            ),
            of(Kind.GAUGE, "up", "1 if the adapter works, else 0.", {k: not v for k, v in troubled.items()}),
            sum_up(Kind.COUNTER, "calls", "Calls of the adapter's methods."),
            sum_up(Kind.COUNTER, "call_failures", "Calls that failed or timed out; a refusal is not a failure."),
            sum_up(Kind.COUNTER, "call_seconds", "Total time that calls took."),
            sum_up(Kind.GAUGE, "calls_pending", "Calls in progress."),
            sum_up(Kind.GAUGE, "threads", "Threads for calls to the adapter."),
            sum_up(Kind.GAUGE, "threads_busy", "Threads that are busy with a call to the adapter."),
            sum_up(Kind.COUNTER, "thread_calls", "Calls that run in threads."),
            sum_up(Kind.COUNTER, "wait_seconds", "Total time that calls waited for a thread."),
            of(
                Kind.COUNTER,
                "events",
                "Events that a data adapter has published, including dropped ones.",
                {label: feed.events for label, feed in feeds.items()},
            ),
            of(
                Kind.GAUGE,
                "items",
                "Items of a data adapter that have subscribers.",
                {label: len(feed.items) for label, feed in feeds.items()},
            ),
            of(
                Kind.GAUGE,
                "events_waiting",
                "Events published by threads of a data adapter that the event loop has not processed yet.",
                waiting,
            ),
        )

    def certificates(self, config: Config) -> list[Shown]:
        return [
            Shown(listener, certificate, None)
            for running in self.running.values()
            for listener, certificate in running.certificates()
        ]

    def mount(self, application: FastAPI) -> None:
        add_ingest_routes(application, self.data_adapter, self._is_ready)

    # -- its life cycle -------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        """The adapters are made and checked; those of the demo are not, because they have no settings to check."""
        assert self._loader is not None
        complaints = []
        plans = [self._introduced(self._loader.load(name, table)) for name, table in self._config.adapters.items()]
        for plan in plans:
            complaints += [f"optional adapter would be retried: {each}" for each in await try_set(plan)]
            self._tried[plan.adapter_set.name] = SetAuthority(plan.adapter_set)
        return complaints

    async def open(self) -> None:
        try:
            for adapter_set in self._given:
                await self.add(SetPlan(adapter_set))
            tables = self._configured(self._config)
            for plan in await self._plans(self._config, tables.keys()):
                await self.add(plan)
            self._tables = tables
            # What adapters keep of the journal is to be newer than all that is dropped.
            self._journal.before_dropping.append(self._keep_states)
            self._journal.may_drop.set()
        except BaseException as error:
            await self._stop()
            if isinstance(error, ConfigError):
                raise StartError(str(error)) from error
            raise

    async def add(self, plan: SetPlan) -> None:
        """Start a set and let clients in; raises StartFailure."""
        directory = None if self._data_dir is None else self._data_dir / "items"
        plan = self._introduced(plan)
        running = RunningSet(
            self._kernel, plan.adapter_set, plan.optional, self._journal.gatherer, directory, self._roster
        )
        await running.start()
        self.running[running.name] = running
        self.open_sets[running.name] = OpenSet(running.name, running.authority, running.authority)
        self._tell()

    async def drain(self) -> None:
        """The doors have drained: nobody is there to be told anything."""
        for name in list(self.coming):
            await self._remove(name, "")
        await self._stop()

    async def _keep_states(self) -> None:
        for running in list(self.running.values()):
            await running.keep_state()

    async def _stop(self) -> None:
        for running in self.running.values():
            await running.stop()
        self.running.clear()

    async def _remove(self, name: str, message: str) -> None:
        """End the sessions of a set and stop its adapters; one that is still starting is given up."""
        del self._tables[name]
        self._broken.discard(name)
        coming = self.coming.pop(name, None)
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        running = self.running.pop(name, None)
        if running is not None:
            running.retire(message)
            del self.open_sets[name]
            self._tell()
            await running.stop()

    def _tell(self) -> None:
        if self.changed is not None:
            self.changed()

    # -- from the configuration to adapters -----------------------------------------------------------------------

    def _configured(self, config: Config) -> dict[str, object]:
        """The sets of a configuration by name, each with that which it is made from."""
        if self._loader is None:
            return {}
        tables: dict[str, object] = dict(config.adapters)
        if config.demo.enabled:
            tables |= dict.fromkeys(DEMO_SETS, config.demo)
        return tables

    async def _plans(self, config: Config, names: Set[str]) -> list[SetPlan]:
        """Make the adapters of some sets of a configuration; raises ConfigError."""
        plans = []
        for name, table in config.adapters.items():
            if name in names and self._loader is not None:
                # Imports and constructors take their time, which is not to be that of the sessions.
                plans.append(await asyncio.to_thread(self._loader.load, name, table))
        if config.demo.enabled and not names.isdisjoint(DEMO_SETS):
            token = None if self._data_dir is None else _demo_token(self._data_dir)
            traffic = config.demo.traffic and config.tlex.enabled
            made = demo_sets(config.demo.pace, token=token, may_register=self._is_local, traffic=traffic)
            plans += [SetPlan(one) for one in made if one.name in names]
        return plans

    def _introduced(self, plan: SetPlan) -> SetPlan:
        plan = SetPlan(self._complete(plan.adapter_set), plan.optional)
        for introduce in self._introductions:
            plan = introduced(plan, introduce)
        return plan

    # -- another configuration ------------------------------------------------------------------------------------

    async def change_to(self, config: Config) -> SetsChange:
        """What another configuration asks for; raises ConfigError. Nothing has changed yet: `retire` is next."""
        tables = self._configured(config)
        wanted = {name for name, table in tables.items() if self._tables.get(name) != table}
        plans = await self._plans(config, wanted)
        changed = [name for name in self._tables if name in wanted]
        gone = [name for name in self._tables if name not in tables]
        return SetsChange(sorted(wanted - set(changed)), changed, gone, plans, tables)

    async def retire(self, change: SetsChange) -> None:
        """End the sets that are gone or changed; `admit` is next."""
        self._broken.clear()
        for name in change.gone:
            await self._remove(name, f"The adapter set {name} has been removed")
        for name in change.changed:
            await self._remove(name, f"The adapter set {name} has been changed")

    def admit(self, change: SetsChange) -> None:
        """Start the sets that are new or changed, which is not waited for; clients are let in when they have."""
        for plan in change.plans:
            name = plan.adapter_set.name
            self._tables[name] = change.tables[name]
            self.coming[name] = asyncio.get_running_loop().create_task(self._come(plan))

    async def _come(self, plan: SetPlan) -> None:
        name = plan.adapter_set.name
        try:
            await self.add(plan)
        except StartFailure as failure:
            # Forgotten, so that the next reload tries it again.
            self._tables.pop(name, None)
            self._broken.add(name)
            log.error("adapter set could not be started", adapter_set=name, reason=str(failure))
        else:
            log.info("adapter set started", adapter_set=name)
        self.coming.pop(name, None)


def _is_fatal(member: Member) -> bool:
    return member.has_failed and not member.optional


def _named(member: Member) -> str:
    return f"{'data' if '/' in member.label else 'metadata'} adapter {member.label}"


def _demo_token(data_dir: Path) -> str:
    path = data_dir / "pipeline" / "token"
    try:
        return kept_token(path)
    except OSError as error:
        raise StartError(f"the pipeline's token cannot be stored in {path}: {error.strerror}") from error
