"""A draft of a batch: every row is checked against the present items, and nothing is changed.

It is journaled and published in `batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.adapters.ingest.errors import RowsRefused
from penstock.adapters.ingest.states import ItemState, UnfitEvent
from penstock.kernel.ports import CheckedEvent

# How many errors of a request its answer lists.
MAX_ERRORS = 10


class Draft:
    """Of one batch. `known` are the items as they stand; `fresh` makes a new one, given how many the batch has made
    already, or raises UnfitEvent if the item may not be.
    """

    def __init__(self, mode: str, known: Mapping[str, ItemState], fresh: Callable[[str, int], ItemState]) -> None:
        self.rows = 0
        self.ignored = 0
        # What there is to publish, in order, and the items as they are then.
        self.events: list[tuple[str, CheckedEvent]] = []
        self.states: dict[str, ItemState] = {}
        self.errors: list[dict[str, object]] = []
        self._mode = mode
        self._known = known
        self._fresh = fresh
        self._touched: dict[str, ItemState] = {}
        self._new_items = 0
        # What the rows to come are a part of, and how many rows came before it.
        self._stage: str | None = None
        self._before = 0

    def begin_stage(self, stage: str) -> None:
        """Rows are counted from here, in errors."""
        self._stage = stage
        self._before = self.rows

    def take(self, batch: Any) -> None:
        """More rows, of an Arrow table. Raises ValueError if they cannot be events."""
        from penstock.adapters.arrow import split  # pyarrow takes its time to load
        from penstock.adapters.ingest.body import ITEM

        items, events = split(batch, ITEM)
        touched = self._touched
        for item, event in zip(items, events, strict=True):
            self.rows += 1
            try:
                if item is None:
                    raise UnfitEvent(f"column {ITEM} has no value")
                if not event:
                    raise UnfitEvent("an update without fields")
                state = touched.get(item)
                if state is None:
                    state = self._touch(item)
                resolved = state.resolve(event)
                if resolved is None:
                    self.ignored += 1
                    continue
                state.apply(resolved)
            except UnfitEvent as unfit:
                self._refuse(str(unfit))
                continue
            if item not in self.states:
                state.complete = True
                self.states[item] = state
            self.events.append((item, resolved))

    def check(self) -> None:
        """Raises RowsRefused if anything was wrong."""
        if self.errors:
            raise RowsRefused(self.errors)

    def _touch(self, item: str) -> ItemState:
        known = self._known.get(item)
        state = self._fresh(item, self._new_items) if known is None else known.copy()
        if state.mode != self._mode:
            raise UnfitEvent(f"item {item[:60]!r} is declared {state.mode}; the batch is {self._mode}")
        if known is None:
            self._new_items += 1
        self._touched[item] = state
        return state

    def _refuse(self, reason: str) -> None:
        if len(self.errors) < MAX_ERRORS:
            place: dict[str, object] = {} if self._stage is None else {"stage": self._stage}
            self.errors.append({**place, "row": self.rows - self._before, "error": reason})
