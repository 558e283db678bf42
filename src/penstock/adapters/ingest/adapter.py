"""The adapter: which items there are, who may publish, what was published last; and the intake of one request.

Everything happens on the event loop, except for files, which are handled on threads. HTTP is in `door` and `sink`,
batches are in `batches`, what is known after a restart is in `memory`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import translate
from functools import partial
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adapters.ingest.draft import MAX_ERRORS
from penstock.adapters.ingest.states import STATES, ItemState, UnfitEvent
from penstock.adapters.inside import InsideAdapter
from penstock.config.tokens import MIN_TOKEN_LENGTH, tokens_in
from penstock.kernel.feed import Feed
from penstock.kernel.ports import CheckedEvent
from penstock.log import get

if TYPE_CHECKING:
    # They import pyarrow, which is slow to load: only if there is a journal.
    from penstock.adapters.ingest.batches import Batches
    from penstock.adapters.ingest.unwritten import NamedEvent, UnwrittenEvents
    from penstock.journal.recorder import JournalItemRecorder

log = get(__name__)

# Seconds between two checks whether the state file has to be written. What came into the journal since then is read at
# the next start.
SAVE_SECONDS = 60.0

# After this many checks it is written even if nothing is new: retention must not drop records that come after it.
IDLE_LOOKS = 60

# How many characters of a name an error quotes.
MAX_ECHO = 60


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """Of one adapter. Beyond `body_bytes` the rest of a request is refused, beyond the others the line."""

    items: int
    fields: int
    rows: int
    body_bytes: int
    line_bytes: int


class IngestAdapter(InsideAdapter):
    """`items` names what may be published, with `*` for anything: a list of MERGE items, or a table of their modes.

    If it is journaled it accepts batches, and restores its state after a restart.
    """

    quick = True

    # For tests, which do not wait.
    save_seconds = SAVE_SECONDS
    clock: Callable[[], float] = staticmethod(time.monotonic)

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
        max_staged_bytes: int = 17_179_869_184,
        max_staged_seconds: float = 3_600.0,
    ) -> None:
        if isinstance(items, str) or not items:
            raise ValueError(f"items = {items!r}: expected a list of names, or a table of names and modes")
        modes = dict(items) if isinstance(items, Mapping) else dict.fromkeys(items, "MERGE")
        for pattern, mode in modes.items():
            if mode not in STATES:
                raise ValueError(f"items: {pattern} = {mode!r}: expected {', '.join(STATES)}")
        self.limits = IngestLimits(max_items, max_fields, max_rows, max_body_bytes, max_line_bytes)
        for name in ("items", "fields", "rows", "body_bytes", "line_bytes"):
            if getattr(self.limits, name) < 1:
                raise ValueError(f"max_{name} = {getattr(self.limits, name)!r}: expected 1 or more")
        if max_staged_bytes < 1:
            raise ValueError(f"max_staged_bytes = {max_staged_bytes!r}: expected 1 or more")
        if not max_staged_seconds > 0:
            raise ValueError(f"max_staged_seconds = {max_staged_seconds!r}: expected more than 0")
        # As they were declared.
        self.modes = modes
        self._max_staged_bytes = max_staged_bytes
        self._max_staged_seconds = max_staged_seconds
        self._patterns = [(re.compile(translate(pattern)), STATES[mode]) for pattern, mode in modes.items()]
        self._tokens = [_token(token, "tokens") for token in tokens]
        self._token_file = None if token_file is None else str(token_file)
        if not tokens and token_file is None:
            raise ValueError("tokens is missing: name some, or a token_file with one in each line")
        self._states: dict[str, ItemState] = {}
        self.feed: Feed
        # Held by everything that changes states and waits in between, or must not come in between.
        self.lock = asyncio.Lock()
        self.recorder: JournalItemRecorder | None = None
        # None if the adapter is not journaled, or nothing is to be kept.
        self.batches: Batches | None = None
        # None if clients need not wait for the disk.
        self._unwritten: UnwrittenEvents | None = None
        self._directory: Path | None = None
        # Two may want to write the state file at the same time.
        self._save_lock = asyncio.Lock()
        # Something has changed since the state file was written, and how often nothing had.
        self._changed = False
        self._idle_looks = 0
        self._saving: asyncio.Task[None] | None = None
        self._stopping: asyncio.Event

    # -- from the server ------------------------------------------------------------------------------------------

    def enter(self, feed: Feed) -> None:
        self.feed = feed

    def journal_to(self, recorder: JournalItemRecorder | None, directory: Path | None) -> None:
        self.recorder = recorder
        self._directory = directory

    def check_start(self) -> None:
        self._kept_tokens()

    async def start(self) -> None:
        self._tokens += self._kept_tokens()
        recorder = self.recorder
        if recorder is None:
            return
        if recorder.policy.value == "ack":
            from penstock.adapters.ingest.unwritten import UnwrittenEvents

            self._unwritten = UnwrittenEvents(self.feed, recorder.gatherer)
        if self._directory is None:
            return
        from penstock.adapters.ingest.batches import Batches, Publishing
        from penstock.adapters.ingest.memory import stages_of

        self._stopping = asyncio.Event()
        self.batches = Batches(
            recorder,
            self._states,
            self.fresh,
            Publishing(self._take_batch, self._take_some, self._settle),
            self.lock,
            stages_of(self._directory, recorder.adapter_set, recorder.adapter),
            self._max_staged_bytes,
            self._max_staged_seconds,
            self.clock,
        )
        await self._recall(recorder, self.batches)
        self._saving = asyncio.create_task(self._keep_saving())

    async def stop(self) -> None:
        """Finish the current batch, and write the state file."""
        if self.batches is not None:
            await self.batches.close()
        if self._saving is not None:
            self._stopping.set()
            await self._saving
            await self.save()

    def _kept_tokens(self) -> list[bytes]:
        """Those of the file; raises ValueError."""
        if self._token_file is None:
            return []
        try:
            found = tokens_in(Path(self._token_file).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"token_file = {self._token_file!r}: {error}") from error
        if not found:
            raise ValueError(f"token_file = {self._token_file!r}: it has no token")
        return [_token(token, f"token_file = {self._token_file!r}") for token in found]

    def subscribe(self, item: str) -> None:
        state = self._states.get(item)
        snapshot = [] if state is None else list(state.events())
        finish = partial(self._end, item) if state is not None and state.complete else _do_nothing
        if self._unwritten is not None and self._unwritten.join(item, snapshot, finish):
            return
        # All of it has been recorded when it came.
        self.feed.publish_checked_by_name([(item, event, True) for event in snapshot], recorded=True)
        finish()

    # -- what is known after a restart ----------------------------------------------------------------------------

    async def _recall(self, recorder: JournalItemRecorder, batches: Batches) -> None:
        from penstock.adapters.ingest.memory import file_of, recall

        assert self._directory is not None
        path = file_of(self._directory, recorder.adapter_set, recorder.adapter)
        disk = recorder.gatherer.journal.disk
        memory = await asyncio.to_thread(recall, path, disk, recorder.adapter_set, recorder.adapter, self.fresh)
        self._states.update(memory.states)
        await batches.recall(memory.queries)
        self._changed = True
        # At once: if the journal is not the one that the file was written with, its numbers would be wrong.
        await self.save()

    async def _keep_saving(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.save_seconds):
                    await self._stopping.wait()
                return
            if self.batches is not None:
                self.batches.stages.expire()
            self._idle_looks += 1
            if self._changed or self._idle_looks >= IDLE_LOOKS:
                await self.save()

    async def save(self) -> None:
        """Write the state file; if that fails it is tried again at the next look."""
        from penstock.journal.errors import JournalError

        with suppress(JournalError, OSError):
            # It has been logged.
            await self.keep_state()

    async def keep_state(self) -> None:
        """Write the state file. Raises JournalError, OSError."""
        from penstock.adapters.ingest.memory import Memory, file_of, save
        from penstock.journal.errors import JournalError

        recorder, batches = self.recorder, self.batches
        if recorder is None or batches is None or self._directory is None:
            return
        path = file_of(self._directory, recorder.adapter_set, recorder.adapter)
        journal = recorder.gatherer.journal
        async with self._save_lock:
            try:
                async with self.lock:
                    recorder.gatherer.flush()
                    sequence = journal.next_sequence - 1
                    states = {item: state.copy() for item, state in self._states.items()}
                    memory = Memory(sequence, states, dict(batches.queries))
                    self._changed = False
                    self._idle_looks = 0
                    on_disk = journal.flush()
                # Numbers that are not on the disk yet would be given to others after a crash.
                await asyncio.wrap_future(on_disk)
                await asyncio.to_thread(save, path, recorder.adapter_set, recorder.adapter, memory)
            except (JournalError, OSError) as error:
                self._changed = True
                log.error("state file of an adapter could not be written", file=str(path), reason=str(error))
                raise

    def _take_batch(self, states: dict[str, ItemState], events: list[tuple[str, CheckedEvent]]) -> None:
        """A batch is on the disk."""
        self._changed = True
        self._states.update(states)
        self._catch_up()
        self.feed.publish_checked_by_name([(item, event, False) for item, event in events], recorded=True)

    def _take_some(self, events: list[tuple[str, CheckedEvent]]) -> None:
        """More of a large batch that is on the disk. Who subscribes in between gets the items as they are then."""
        for item, event in events:
            state = self._states.get(item)
            if state is None:
                state = self._states[item] = self.fresh(item, 0)
            state.apply(event)
            state.complete = True
        self._catch_up()
        self.feed.publish_checked_by_name([(item, event, False) for item, event in events], recorded=True)

    def _settle(self, states: dict[str, ItemState]) -> None:
        """All of it was published, or as much as can be."""
        self._changed = True
        self._states.update(states)

    def _catch_up(self) -> None:
        """What is on the disk and came before goes first."""
        if self._unwritten is not None:
            self._unwritten.catch_up()

    # -- from the door --------------------------------------------------------------------------------------------

    def admits(self, token: str) -> bool:
        """Whether it is one of the tokens, compared in constant time."""
        given = token.encode()
        admitted = False
        for known in self._tokens:
            admitted |= compare_digest(given, known)
        return admitted

    def state(self, item: str) -> ItemState:
        """What is kept of an item, or would be: see `keep`. Raises UnfitEvent if it may not be published."""
        state = self._states.get(item)
        return self.fresh(item, 0) if state is None else state

    def fresh(self, item: str, more: int) -> ItemState:
        """A state for an item that has none, if there is room beside the others and so many more. Raises UnfitEvent."""
        kind = next((kind for pattern, kind in self._patterns if pattern.match(item)), None)
        if kind is None:
            raise UnfitEvent(f"item {item[:MAX_ECHO]!r} is not declared")
        if len(self._states) + more >= self.limits.items:
            raise UnfitEvent(f"item {item[:MAX_ECHO]!r} is one more than max_items = {self.limits.items}")
        return kind(self.limits.fields, self.limits.rows)

    def keep(self, item: str, state: ItemState) -> None:
        self._changed = True
        self._states[item] = state

    def forget(self, item: str) -> None:
        """The item is empty and makes room for others."""
        self._changed = True
        self._states.pop(item, None)

    def publish_taken(self, events: list[NamedEvent]) -> None:
        """They have been recorded and kept; with policy `ack` clients see them when they are on the disk."""
        if self._unwritten is None:
            self.feed.publish_checked_by_name(events, recorded=True)
        else:
            self._unwritten.publish(events)

    def clear_taken(self, item: str) -> None:
        """The same for a clear."""
        self._act(item, partial(self._clear, item))

    def end_taken(self, item: str) -> None:
        """The same for the end of a snapshot."""
        self._act(item, partial(self._end, item))

    def _act(self, item: str, action: Callable[[], None]) -> None:
        if self._unwritten is None:
            action()
        else:
            self._unwritten.act(item, action)

    def _clear(self, item: str) -> None:
        if item in self.feed.items:
            self.feed.clear_snapshot(item, recorded=True)

    def _end(self, item: str) -> None:
        if item in self.feed.items:
            self.end_of_snapshot(item)


class IngestIntake:
    """What one request publishes. Events go to the kernel in batches: call `flush` now and then, and at the end."""

    def __init__(self, adapter: IngestAdapter) -> None:
        self.accepted = 0
        self.refused = 0
        self.errors: list[dict[str, object]] = []
        self._adapter = adapter
        self._recorder = adapter.recorder
        # Their values have been checked before, and nobody changes them: the kernel need not check again.
        self._events: list[tuple[str, CheckedEvent, bool]] = []

    def update(self, number: int, item: str, event: CheckedEvent, snapshot: bool = False) -> None:
        """An event, from the line or row of this number."""
        try:
            if not event:
                raise UnfitEvent("an update without fields")
            state = self._adapter.state(item)
            state.apply(event)
            self._adapter.keep(item, state)
        except UnfitEvent as unfit:
            self.refuse(number, str(unfit))
            return
        self.accepted += 1
        if not snapshot:
            state.complete = True
        if self._recorder is not None:
            # Recorded here and not by the kernel, which would drop events that are invalid in a client's wrong mode.
            self._recorder.record(item, "snapshot" if snapshot else "update", event)
        self._events.append((item, event, snapshot))

    def clear(self, number: int, item: str) -> None:
        try:
            self._adapter.state(item)
        except UnfitEvent as unfit:
            self.refuse(number, str(unfit))
            return
        self._adapter.forget(item)
        self.accepted += 1
        self.flush()
        if self._recorder is not None:
            self._recorder.record(item, "clear", None)
        self._adapter.clear_taken(item)

    def end_of_snapshot(self, number: int, item: str) -> None:
        try:
            state = self._adapter.state(item)
        except UnfitEvent as unfit:
            self.refuse(number, str(unfit))
            return
        state.complete = True
        self._adapter.keep(item, state)
        self.accepted += 1
        self.flush()
        self._adapter.end_taken(item)

    def refuse(self, number: int, reason: str) -> None:
        self.refused += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append({"line": number, "error": reason})

    def flush(self) -> None:
        """Publish what has been gathered."""
        if self._events:
            events, self._events = self._events, []
            self._adapter.publish_taken(events)


def _do_nothing() -> None:
    """What follows a snapshot that is not complete."""


def _token(token: str, place: str) -> bytes:
    if len(token) < MIN_TOKEN_LENGTH:
        raise ValueError(f"{place}: a token of {len(token)} characters; expected at least {MIN_TOKEN_LENGTH}")
    return token.encode()
