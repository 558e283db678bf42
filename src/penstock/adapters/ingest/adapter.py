"""The adapter: which items there are, who may publish, what was published last; and the intake of one request.

Everything happens on the event loop. HTTP is in `door`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from hmac import compare_digest
from pathlib import Path

from penstock.adapters.api import DataAdapter
from penstock.adapters.ingest.states import STATES, Event, State, Unfit
from penstock.kernel.feed import Feed
from penstock.kernel.item import Item

# Shorter ones can be guessed.
MIN_TOKEN_LENGTH = 16

# How many things that are wrong with a request its answer names; the others are only counted.
MAX_ERRORS = 10

# How much of a name an error repeats.
MAX_ECHO = 60


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one adapter. Beyond `body_bytes` the rest of a request is refused, beyond the others the line."""

    items: int
    fields: int
    rows: int
    body_bytes: int
    line_bytes: int


class IngestAdapter(DataAdapter):
    """`items` names what may be published, with `*` for anything: a list of MERGE items, or a table of their modes."""

    quick = True

    def __init__(
        self,
        *,
        items: Sequence[str] | Mapping[str, str],
        tokens: Sequence[str] = (),
        token_file: str | Path | None = None,
        max_items: int = 10_000,
        max_fields: int = 200,
        max_rows: int = 10_000,
        max_body_bytes: int = 67_108_864,
        max_line_bytes: int = 262_144,
    ) -> None:
        if isinstance(items, str) or not items:
            raise ValueError(f"items = {items!r}: expected a list of names, or a table of names and modes")
        modes = dict(items) if isinstance(items, Mapping) else dict.fromkeys(items, "MERGE")
        for pattern, mode in modes.items():
            if mode not in STATES:
                raise ValueError(f"items: {pattern} = {mode!r}: expected {', '.join(STATES)}")
        self.limits = Limits(max_items, max_fields, max_rows, max_body_bytes, max_line_bytes)
        for name in ("items", "fields", "rows", "body_bytes", "line_bytes"):
            if getattr(self.limits, name) < 1:
                raise ValueError(f"max_{name} = {getattr(self.limits, name)!r}: expected 1 or more")
        self._patterns = [(re.compile(translate(pattern)), STATES[mode]) for pattern, mode in modes.items()]
        self._tokens = [_token(token, "tokens") for token in tokens]
        self._token_file = None if token_file is None else str(token_file)
        if not tokens and token_file is None:
            raise ValueError("tokens is missing: name some, or a token_file with one in each line")
        self._states: dict[str, State] = {}
        self.feed: Feed

    # -- from the server ------------------------------------------------------------------------------------------

    def enter(self, feed: Feed) -> None:
        self.feed = feed

    def start(self) -> None:
        if self._token_file is None:
            return
        try:
            lines = Path(self._token_file).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"token_file = {self._token_file!r}: {error}") from error
        found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not found:
            raise ValueError(f"token_file = {self._token_file!r}: it has no token")
        self._tokens += [_token(token, f"token_file = {self._token_file!r}") for token in found]

    def subscribe(self, item: str) -> None:
        state = self._states.get(item)
        if state is None:
            return
        for event in state.events():
            self.update(item, event, snapshot=True)
        if state.complete:
            self.end_of_snapshot(item)

    # -- from the door --------------------------------------------------------------------------------------------

    def admits(self, token: str) -> bool:
        """Whether it is one of the tokens; how long that takes tells nothing about them."""
        given = token.encode()
        admitted = False
        for known in self._tokens:
            admitted |= compare_digest(given, known)
        return admitted

    def state(self, item: str) -> State:
        """What is kept of an item, or would be: see `keep`. Raises Unfit if it may not be published."""
        state = self._states.get(item)
        if state is None:
            kind = next((kind for pattern, kind in self._patterns if pattern.match(item)), None)
            if kind is None:
                raise Unfit(f"item {item[:MAX_ECHO]!r} is not declared")
            if len(self._states) >= self.limits.items:
                raise Unfit(f"item {item[:MAX_ECHO]!r} is one more than max_items = {self.limits.items}")
            state = kind(self.limits.fields, self.limits.rows)
        return state

    def keep(self, item: str, state: State) -> None:
        self._states[item] = state

    def forget(self, item: str) -> None:
        """The item is empty and makes room for others."""
        self._states.pop(item, None)


class Intake:
    """What one request publishes. Events go to the kernel in batches: call `flush` now and then, and at the end."""

    def __init__(self, adapter: IngestAdapter) -> None:
        self.accepted = 0
        self.refused = 0
        self.errors: list[dict[str, object]] = []
        self._adapter = adapter
        self._live = adapter.feed.items
        # Their values have been checked on the way here, and nobody changes them: the kernel need not look again.
        self._events: list[tuple[Item, Event, bool]] = []

    def update(self, number: int, item: str, event: Event, snapshot: bool = False) -> None:
        """An event, from the line or row of this number."""
        try:
            if not event:
                raise Unfit("an update without fields")
            state = self._adapter.state(item)
            state.apply(event)
            self._adapter.keep(item, state)
        except Unfit as unfit:
            self.refuse(number, str(unfit))
            return
        self.accepted += 1
        if not snapshot:
            state.complete = True
        live = self._live.get(item)
        if live is not None:
            self._events.append((live, event, snapshot))

    def clear(self, number: int, item: str) -> None:
        try:
            self._adapter.state(item)
        except Unfit as unfit:
            self.refuse(number, str(unfit))
            return
        self._adapter.forget(item)
        self.accepted += 1
        self.flush()
        if item in self._live:
            self._adapter.clear_snapshot(item)

    def end_of_snapshot(self, number: int, item: str) -> None:
        try:
            state = self._adapter.state(item)
        except Unfit as unfit:
            self.refuse(number, str(unfit))
            return
        state.complete = True
        self._adapter.keep(item, state)
        self.accepted += 1
        self.flush()
        if item in self._live:
            self._adapter.end_of_snapshot(item)

    def refuse(self, number: int, reason: str) -> None:
        self.refused += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append({"line": number, "error": reason})

    def flush(self) -> None:
        """Hand over what has been gathered."""
        if self._events:
            events, self._events = self._events, []
            self._adapter.feed.publish(events)


def _token(token: str, place: str) -> bytes:
    if len(token) < MIN_TOKEN_LENGTH:
        raise ValueError(f"{place}: a token of {len(token)} characters; expected at least {MIN_TOKEN_LENGTH}")
    return token.encode()
