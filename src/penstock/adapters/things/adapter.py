"""Data adapter THINGS: publishes what happens to things, of each the fields that somebody watches.

Which fields those are, and that their watchers may see them, `metadata` says. Nothing is journaled here: things are in
the journal before anybody hears of a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from penstock.adapters.api import DataAdapter
from penstock.adapters.things.fields import has_parts, value_of, written
from penstock.kernel.ports import Value
from penstock.twins.registry import Twins
from penstock.twins.told import Told
from penstock.twins.twin import Twin
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.kinds import EntityGroup

# Differences of JSON documents are sent as JSON Patch; texts are sent whole, because one may look like JSON but not be.
PATCH = "P"


class ThingsAdapter(DataAdapter):
    """Lives on the event loop, as the registry does."""

    quick = True

    def __init__(self, twins: Twins) -> None:
        self._twins = twins
        self._stop: Callable[[], None] | None = None
        self._subscribed: set[str] = set()
        # Of each thing the fields that subscriptions have, and how many of these there are.
        self._watched: dict[str, Counter[str]] = {}
        # Of each subscribed thing the fields that are sent as differences.
        self._patched: dict[str, set[str]] = {}

    def start(self) -> None:
        self._stop = self._twins.listen(self._hear)

    def stop(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    # -- who wants what --------------------------------------------------------------------------------------------

    def watch(self, thing: str, fields: Iterable[str]) -> None:
        """A subscription to these fields is about to begin."""
        watched = self._watched.setdefault(thing, Counter())
        new = [field for field in fields if not watched[field]]
        watched.update(fields)
        if thing in self._subscribed and new:
            # The others have what they want already: this is for whoever comes.
            self._publish(thing, self._twins.thing(thing), new)

    def unwatch(self, thing: str, fields: Iterable[str]) -> None:
        """It has ended."""
        watched = self._watched.get(thing)
        if watched is None:
            return
        watched.subtract(fields)
        left = +watched
        if left:
            self._watched[thing] = left
        else:
            del self._watched[thing]

    def subscribe(self, item: str) -> None:
        self._subscribed.add(item)
        self._publish(item, self._twins.thing(item), self._watched.get(item, ()), snapshot=True)

    def unsubscribe(self, item: str) -> None:
        self._subscribed.discard(item)
        self._patched.pop(item, None)

    # -- what happens ----------------------------------------------------------------------------------------------

    def _hear(self, told: Told) -> None:
        thing = told.key.id
        if told.key.group is not EntityGroup.THINGS or thing not in self._subscribed:
            return
        if told.after is None:
            self.clear_snapshot(thing)
            return
        before, after = told.before, told.after
        changed = [field for field in self._watched.get(thing, ()) if _differs(before, after, field)]
        if changed:
            self._publish(thing, after, changed)

    def _publish(self, thing: str, twin: Twin | None, fields: Iterable[str], snapshot: bool = False) -> None:
        values = {field: value_of(twin, field) for field in fields}
        self._declare(thing, values)
        event: dict[str, Value] = {field: written(value) for field, value in values.items()}
        self.update(thing, event, snapshot)

    def _declare(self, thing: str, values: dict[str, Json]) -> None:
        patched = self._patched.setdefault(thing, set())
        orders: dict[str, str] = {}
        for field, value in values.items():
            if has_parts(value) and field not in patched:
                patched.add(field)
                orders[field] = PATCH
            elif type(value) is str and field in patched:
                patched.discard(field)
                orders[field] = ""
        if orders:
            self.declare_differences(thing, orders)


def _differs(before: Twin | None, after: Twin | None, field: str) -> bool:
    one, other = value_of(before, field), value_of(after, field)
    # Documents are never changed in place: what is the same object has not changed.
    return one is not other and written(one) != written(other)
