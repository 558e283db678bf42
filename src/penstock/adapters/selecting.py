"""The guard around a metadata adapter's selector: an event on which it fails does not pass.

Not here: when it is asked for (questions.py), what becomes of the events (kernel/view.py).
"""

from __future__ import annotations

from functools import lru_cache

from penstock.adapters.faults import CONTAINED
from penstock.kernel.alike import MAX_KEPT
from penstock.kernel.ports import Event, Selector
from penstock.log import get

log = get(__name__)


class GuardedSelector:
    """A metadata adapter's selector; an event on which it raises does not pass, and other subscribers still get it."""

    def __init__(self, adapter_set: str, name: str, selector: Selector) -> None:
        self._adapter_set = adapter_set
        self._name = name
        self._selector = selector

    def __call__(self, event: Event) -> bool:
        try:
            with CONTAINED:
                return bool(self._selector(event))
        except Exception:
            log.exception("selector failed", adapter_set=self._adapter_set, selector=self._name)
            return False


def guarded_selector(adapter_set: str, name: str, selector: Selector) -> Selector:
    """One guard for all subscriptions with the same selector: they share what is encoded for them."""
    try:
        return _shared_guard(adapter_set, name, selector)
    except TypeError:
        # A selector that is not hashable is not shared.
        return GuardedSelector(adapter_set, name, selector)


@lru_cache(MAX_KEPT)
def _shared_guard(adapter_set: str, name: str, selector: Selector) -> Selector:
    return GuardedSelector(adapter_set, name, selector)
