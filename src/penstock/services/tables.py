"""What is in the server, row by row: sessions, items, adapters, queries of the pipeline, processes, the configuration.

Each table remembers its last walk, because rows have rates. Rows are texts, as items have them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.adapters.call_tally import CallTally
from penstock.config.keys import sections_of
from penstock.config.rendering import shown
from penstock.config.toml import written
from penstock.kernel.identity import public

if TYPE_CHECKING:
    from penstock.adapters.monitor.overview import Keyed, Row, Table
    from penstock.adapters.roster import Roster
    from penstock.config import Config
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.session import Session
    from penstock.services.admin.models import ClusterInfo
    from penstock.services.queries import QueryFile
    from penstock.wire.fabric.administration import ItemPath

# Bits in a byte, and bits in a kilobit.
BITS = 8 / 1000


def tables(
    config: Config,
    origins: Mapping[str, str],
    kernel: Kernel,
    roster: Roster,
    queries: Callable[[], Sequence[QueryFile]],
    status: Callable[[], ClusterInfo],
) -> dict[str, Callable[[], Table]]:
    """All tables by name; each is made anew for whoever walks over it."""
    return {
        "sessions": lambda: SessionsTable(kernel),
        "items": lambda: ItemsTable(kernel),
        "adapters": lambda: AdaptersTable(kernel, roster),
        "queries": lambda: QueriesTable(queries),
        "nodes": lambda: NodesTable(status),
        "configuration": lambda: ConfigurationTable(config, origins),
    }


class Rates:
    """How fast counters grow from one walk to the next."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, ...]] = {}
        self._now: dict[str, tuple[int, ...]] = {}
        self._walked = 0.0
        self._seconds = 0.0

    def begin(self, now: float) -> None:
        """Another walk: those that are not met on it are forgotten."""
        self._before, self._now = self._now, {}
        self._seconds = now - self._walked if self._walked else 0.0
        self._walked = now

    def of(self, key: str, *counters: int) -> tuple[float, ...]:
        """A second; 0 for what was not there the last time."""
        before = self._before.get(key, counters)
        self._now[key] = counters
        if not self._seconds:
            return (0.0,) * len(counters)
        return tuple([(count - last) / self._seconds for count, last in zip(counters, before, strict=True)])


class SessionsTable:
    """All sessions, by the public part of their identifiers."""

    def __init__(self, kernel: Kernel, elsewhere: Callable[[], Iterable[Keyed]] = tuple) -> None:
        """`elsewhere` gives the rows of other processes."""
        self._kernel = kernel
        self._elsewhere = elsewhere
        self._rates = Rates()

    def __call__(self) -> Iterator[Keyed]:
        yield from self._own()
        yield from self._elsewhere()

    def _own(self) -> Iterator[Keyed]:
        now = self._kernel.clock()
        self._rates.begin(now)
        wall = time.time() - now
        for session in list(self._kernel.sessions.values()):
            if not session.closed:
                key = public(session.id)
                yield key, self._row(key, session, wall)

    def _row(self, key: str, session: Session, wall: float) -> Row:
        figures = session.figures()
        updates, size = self._rates.of(key, figures.updates, figures.bytes)
        return {
            "user": session.user,
            "address": session.client.address,
            "adapter_set": session.adapter_set,
            "library": session.client.library,
            "protocol": session.codec.protocol,
            "transport": session.transport,
            "opened_ms": str(int((wall + session.opened) * 1000)),
            "bandwidth": f"{size * BITS:.1f}",
            "max_bandwidth": None if session.max_bandwidth is None else f"{session.max_bandwidth:g}",
            "updates_sec": f"{updates:.1f}",
            "updates": str(figures.updates),
            "bytes": str(figures.bytes),
            "lost": str(figures.lost),
            "subscriptions": str(len(session.subscriptions)),
            "items": str(sum([len(each.items) for each in session.subscriptions.values()])),
            "unsent_bytes": str(session.waiting()),
        }


class ItemsTable:
    """All items that somebody is subscribed to, or that are journaled, by set, data adapter and name."""

    def __init__(self, kernel: Kernel, elsewhere: Callable[[], Mapping[ItemPath, int]] = dict) -> None:
        """`elsewhere` says how many subscribers items have in other processes."""
        self._kernel = kernel
        self._elsewhere = elsewhere
        self._rates = Rates()

    def __call__(self) -> Iterator[Keyed]:
        self._rates.begin(self._kernel.clock())
        elsewhere = self._elsewhere()
        for feed in list(self._kernel.feeds.values()):
            for item in list(feed.items.values()):
                key = f"{feed.adapter_set}/{feed.name}/{item.name}"
                (events,) = self._rates.of(key, item.events)
                yield (
                    key,
                    {
                        "item": item.name,
                        "adapter_set": feed.adapter_set,
                        "data_adapter": feed.name,
                        "mode": None if item.mode is None else item.mode.value,
                        "subscribers": str(item.audience + elsewhere.get((feed.adapter_set, feed.name, item.name), 0)),
                        "events_sec": f"{events:.1f}",
                        "events": str(item.events),
                    },
                )


class NodesTable:
    """The processes of the server by name."""

    def __init__(self, status: Callable[[], ClusterInfo]) -> None:
        self._status = status

    def __call__(self) -> Iterator[Keyed]:
        found = self._status()
        for node in found.nodes:
            yield (
                node.name,
                {
                    "node": node.node,
                    "role": node.role,
                    "state": node.state,
                    "version": node.version,
                    "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(node.since_ms / 1000)),
                    "epoch": found.epoch,
                    "sessions": str(node.sessions),
                    "items": str(node.items),
                    "lag_millis": None if node.lag_millis is None else f"{node.lag_millis:.1f}",
                },
            )


class ConfigurationTable:
    """Every key with its value, secrets masked, and where that comes from."""

    def __init__(self, config: Config, origins: Mapping[str, str]) -> None:
        self._config = config
        self._origins = origins

    def __call__(self) -> Iterator[Keyed]:
        for section in sections_of(self._config):
            for key in section.keys:
                value = written(shown(self._config, key))
                yield key.name, {"value": value, "origin": self._origins.get(key.name, "default")}


class QueriesTable:
    """The queries of the pipeline by name."""

    def __init__(self, queries: Callable[[], Sequence[QueryFile]]) -> None:
        self._queries = queries

    def __call__(self) -> Iterator[Keyed]:
        for query in self._queries():
            lag, rows = query.lag_seconds, query.rows_per_second
            yield (
                query.name,
                {
                    "state": query.state,
                    "rows_sec": None if rows is None else f"{rows:.1f}",
                    "batch_millis": None if query.batch_millis is None else str(query.batch_millis),
                    "lag_millis": None if lag is None else f"{1000 * lag:.0f}",
                    "batch": None if query.batch is None else str(query.batch),
                    "error": query.reason,
                },
            )


class AdaptersTable:
    """All adapters by their labels, `SET` or `SET/NAME`, also those that are waited for."""

    def __init__(self, kernel: Kernel, roster: Roster) -> None:
        self._kernel = kernel
        self._roster = roster
        self._rates = Rates()

    def __call__(self) -> Iterator[Keyed]:
        self._rates.begin(self._kernel.clock())
        for member in self._roster.members():
            # Those that are waited for come below, also when they have not been made yet.
            if member.label not in self._roster.awaited:
                trouble = member.trouble
                yield (
                    member.label,
                    self._row(member.label, self._roster.state_of(member, trouble), trouble, member.calls),
                )
        for label in sorted(self._roster.awaited):
            yield label, self._row(label, "awaited", None, CallTally())

    def _row(self, label: str, state: str, trouble: str | None, calls: CallTally) -> Row:
        adapter_set, _, name = label.partition("/")
        feed = self._kernel.feeds.get((adapter_set, name))
        events = 0 if feed is None else feed.events
        (rate,) = self._rates.of(label, events)
        return {
            "kind": "data" if name else "metadata",
            "state": state,
            "trouble": trouble,
            "calls": str(calls.calls),
            "failures": str(calls.failures),
            "call_millis": f"{1000 * calls.seconds / calls.calls:.1f}" if calls.calls else None,
            "queue": str(calls.pending),
            "items": "0" if feed is None else str(len(feed.items)),
            "events": str(events),
            "events_sec": f"{rate:.1f}",
        }
