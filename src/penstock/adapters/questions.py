"""What is asked of a metadata adapter about a subscription: one question after the other, however it is asked.

Not here: when, on which thread and for how long it is asked (authority.py, calls.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from penstock.adapters.api import MetadataAdapter
from penstock.adapters.calls import overrides
from penstock.adapters.customizing import GuardedCustomizer
from penstock.adapters.selecting import guarded_selector
from penstock.kernel.alike import shared_grant, shared_item, shared_name
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import Customizer, Grant, Selector, SessionFacts, Wish
from penstock.log import get

log = get(__name__)

# Method and arguments in, the adapter's answer back; in the end what all of them together say.
Questions = Generator[tuple[Callable[..., Any], tuple[Any, ...]], Any, Any]

# Those that are asked once for a subscription or for each of its items.
DECISIONS = (
    "items",
    "fields",
    "allows_mode",
    "max_frequency",
    "max_buffer_size",
    "snapshot_length",
    "prefilter_frequency",
    "selector",
    "customizer",
)


class AdapterQuestions:
    """Those for one metadata adapter."""

    def __init__(self, adapter_set: str, metadata: MetadataAdapter) -> None:
        self._name = adapter_set
        self._metadata = metadata
        self._customizes = overrides(metadata, MetadataAdapter, "customizer")

    def of_subscription(self, session: SessionFacts, wish: Wish) -> Questions:
        metadata, data_adapter, mode = self._metadata, wish.data_adapter, Mode(wish.mode)
        items = yield metadata.items, (session, data_adapter, wish.group)
        fields = yield metadata.fields, (session, data_adapter, wish.group, wish.schema)
        if not fields:
            raise Refusal(Reason.SCHEMA, "The schema has no fields")
        granted = []
        for item in items:
            name = shared_name(str(item))
            if not (yield metadata.allows_mode, (session, data_adapter, name, mode)):
                raise Refusal(Reason.MODE, f"Mode {mode.value} is not supported for item {name[:60]}")
            item_grant = shared_item(
                name,
                (yield metadata.max_frequency, (session, data_adapter, name)),
                (yield metadata.max_buffer_size, (session, data_adapter, name)),
                (yield metadata.snapshot_length, (data_adapter, name)),
                (yield metadata.prefilter_frequency, (data_adapter, name)),
            )
            if self._customizes:
                customizer = yield metadata.customizer, (session, data_adapter, name, mode)
                item_grant = replace(item_grant, customizer=self._guarded_customizer(customizer, name, mode))
            granted.append(item_grant)
        chosen: Selector | None = None
        if wish.selector is not None:
            selector = yield metadata.selector, (session, data_adapter, wish.selector)
            chosen = guarded_selector(self._name, wish.selector, selector)
        names = tuple([shared_name(str(field)) for field in fields])
        return (Grant if self._customizes else shared_grant)(tuple(granted), names, chosen)

    def _guarded_customizer(self, customizer: Any, item: str, mode: Mode) -> Customizer | None:
        if customizer is None or isinstance(customizer, GuardedCustomizer):
            return customizer
        if not callable(customizer):
            raise wrong_type(self._name, "customizer", customizer)
        return GuardedCustomizer(self._name, item, mode, customizer)

    def of_frequencies(self, session: SessionFacts, data_adapter: str, items: Sequence[str]) -> Questions:
        limits = []
        for item in items:
            limits.append((yield self._metadata.max_frequency, (session, data_adapter, item)))
        return tuple(limits)

    def guard(self, grant: Grant, mode: Mode) -> Grant:
        """What an adapter that answers all in one go has granted, its customizers guarded like those of others."""
        items = [
            replace(item, customizer=self._guarded_customizer(item.customizer, item.name, mode)) for item in grant.items
        ]
        return replace(grant, items=tuple(items))


def answered(questions: Questions) -> Any:
    """Ask all questions here and now."""
    answer: Any = None
    while True:
        try:
            method, arguments = questions.send(answer)
        except StopIteration as end:
            return end.value
        answer = method(*arguments)


async def answered_one_by_one(questions: Questions, call: Callable[..., Awaitable[Any]]) -> Any:
    """Ask them one after the other; `call` waits for the answer of a method with this name."""
    answer: Any = None
    while True:
        try:
            method, arguments = questions.send(answer)
        except StopIteration as end:
            return end.value
        answer = await call(method.__name__, *arguments)


def wrong_type(adapter_set: str, call: str, returned: object) -> Refusal:
    """An adapter has returned what is no answer to the question. The log has the rest."""
    log.error(
        "metadata adapter returned a wrong type", adapter_set=adapter_set, call=call, returned=type(returned).__name__
    )
    return Refusal(Reason.AUTHORITY_ERROR, "The metadata adapter failed on this request")
