"""The guard around a metadata adapter's customizer: what it fails on is dropped, because its client must not see it.

Not here: what becomes of the events (kernel/custom.py), when it is asked for (questions.py).
"""

from __future__ import annotations

from types import MappingProxyType

from penstock.adapters.faults import CONTAINED
from penstock.kernel.books import COMMAND_FIELD, KEY_FIELD, BadEvent
from penstock.kernel.feed import check_event
from penstock.kernel.item import Mode
from penstock.kernel.ports import Customizer, Event
from penstock.kernel.table import ADD, DELETE, UPDATE
from penstock.log import get

log = get(__name__)


class GuardedCustomizer:
    """For one item of one subscription."""

    __slots__ = ("_adapter_set", "_customizer", "_is_table", "_item")

    def __init__(self, adapter_set: str, item: str, mode: Mode, customizer: Customizer) -> None:
        self._adapter_set = adapter_set
        self._item = item
        self._is_table = mode is Mode.COMMAND
        self._customizer = customizer

    def __call__(self, event: Event) -> Event | None:
        try:
            with CONTAINED:
                # It must not change what others are given.
                changed = self._customizer(MappingProxyType(event))
                if changed is None:
                    return None
                sound = check_event(changed)
            if self._is_table:
                _check_row(sound)
        except BadEvent as bad:
            log.error(
                "customizer returned an invalid event", adapter_set=self._adapter_set, item=self._item, reason=str(bad)
            )
            return None
        except Exception:
            log.exception("customizer failed", adapter_set=self._adapter_set, item=self._item)
            return None
        return sound


def _check_row(event: Event) -> None:
    if not event.get(KEY_FIELD):
        raise BadEvent(f"an event without {KEY_FIELD}, which COMMAND mode needs")
    if event.get(COMMAND_FIELD) not in (ADD, UPDATE, DELETE):
        raise BadEvent(f"{COMMAND_FIELD} is {event.get(COMMAND_FIELD)!r}; expected {ADD}, {UPDATE} or {DELETE}")
