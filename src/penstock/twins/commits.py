"""Changes on their way to the disk and back. Those of one command are there together, or none of them is.

Whoever waits for them is answered, and listeners are told, once it is known. What a command changes is decided in
`registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.twins.access import Access, Rights
from penstock.twins.command import Caller, TwinCommand
from penstock.twins.decision import Decision, Result
from penstock.twins.effective import EffectivePolicies
from penstock.twins.line import ChangeLine, ChangeStep
from penstock.twins.lines import TwinLines
from penstock.twins.milestone import with_milestone
from penstock.twins.names import EntityKey, TwinNames
from penstock.twins.ports import ChangeLog, NewRecord
from penstock.twins.preconditions import current
from penstock.twins.reasons import NotDurable, TwinRefusal
from penstock.twins.told import Told
from penstock.twins.twin import METADATA_HEADER
from penstock.wire.ditto.document import Json, text_of

# Called once, perhaps immediately: with the result of a command, or with the reason for refusing it.
TakeResult = Callable[[Result | TwinRefusal], None]
TwinListener = Callable[[Told], None]

_T = TypeVar("_T")


@dataclass(slots=True)
class PendingChanges:
    """The changes of one command given to the journal, and all that wait until they are on the disk."""

    sequence: int
    steps: list[tuple[EntityKey, ChangeLine, ChangeStep]]
    correlation: Json
    origin: object
    waiting: list[tuple[TakeResult, Result | TwinRefusal, EntityKey]] = field(default_factory=list)


class Commits:
    """`fault` is called while an exception is handled that a listener, or whoever was answered, has raised."""

    def __init__(
        self,
        change_log: ChangeLog,
        names: TwinNames,
        lines: TwinLines,
        effective: EffectivePolicies,
        now: Callable[[], int],
        fault: Callable[[EntityKey], None],
    ) -> None:
        self._change_log = change_log
        self._names = names
        self._lines = lines
        self._effective = effective
        self._now = now
        self._fault = fault
        self.listeners: list[TwinListener] = []
        # Those that wait for the disk, by the entities in them; of several the newest.
        self._newest: dict[EntityKey, PendingChanges] = {}
        # How many do.
        self.waiting = 0
        # Counters for the monitor.
        self.committed_changes = 0
        self.failed_changes = 0

    def newest(self, keys: Iterable[EntityKey]) -> PendingChanges | None:
        """The last changes of any of these that are not on the disk yet."""
        batches = [self._newest[key] for key in keys if key in self._newest]
        return max(batches, key=lambda each: each.sequence, default=None)

    def append(
        self, command: TwinCommand, caller: Caller, decisions: list[tuple[EntityKey, Decision]], rights: Rights
    ) -> tuple[Result, PendingChanges]:
        """Make the changes of a command durable, all or none; the last of them is the command's own."""
        now = self._now()
        records = []
        for key, decision in decisions:
            change = decision.change
            entity = self._names.entity(key)
            kept = {**command.kept, METADATA_HEADER: change.metadata} if change.metadata else command.kept
            headers = with_milestone(kept, self._change_log.revision(entity) + 1, self._lines.committed(key))
            told = text_of(headers) if headers else None
            records.append(NewRecord(entity, now, change.kind.value, change.path, change.text, told))
        batch = PendingChanges(0, [], command.correlation, caller.origin)
        appended = self._change_log.append(
            [*records, *caller.marks], lambda is_durable: self._settle(batch, is_durable)
        )
        if appended is None:
            raise TwinRefusal(NotDurable(decisions[-1][0]))
        batch.sequence = appended.first
        for (key, decision), revision in zip(decisions, appended.revisions[: len(decisions)], strict=True):
            line = self._lines.line(key)
            batch.steps.append((key, line, line.push(decision.change, revision, now)))
            self._newest[key] = batch
        self.waiting += 1
        decision, twin = decisions[-1][1], batch.steps[-1][2].after
        tag = None
        if twin is not None:
            tag = current(command.group, twin, rights, command.resource.pointer).tag
        return Result(decision.effect, decision.value, tag), batch

    def _settle(self, batch: PendingChanges, is_durable: bool) -> None:
        """Called in the order of sequences when it is known whether the changes of a command are durable."""
        self.waiting -= 1
        for key, line, step in batch.steps:
            if is_durable:
                line.commit(step)
            else:
                line.drop(step)
            if self._newest.get(key) is batch:
                del self._newest[key]
        if is_durable:
            self._lines.applied = batch.sequence + len(batch.steps) - 1
            self.committed_changes += len(batch.steps)
            for key, line, _ in batch.steps:
                if key.is_policy:
                    self._effective.note(key.id, line.committed)
            for key, _, step in batch.steps:
                self._tell(key, step, batch)
        else:
            self.failed_changes += len(batch.steps)
        for answer, result, key in batch.waiting:
            self._hand_over(answer, result if is_durable else TwinRefusal(NotDurable(key)), key)
        for key, line, _ in batch.steps:
            self._lines.tidy(key, line)

    def _tell(self, key: EntityKey, step: ChangeStep, batch: PendingChanges) -> None:
        if not self.listeners:
            return
        told = self._told(key, step, batch)
        for listener in tuple(self.listeners):
            self._hand_over(listener, told, key)

    def _hand_over(self, receiver: Callable[[_T], None], what: _T, key: EntityKey) -> None:
        """A callback that raises does not affect the others."""
        try:
            receiver(what)
        except Exception:
            self._fault(key)

    def _told(self, key: EntityKey, step: ChangeStep, batch: PendingChanges) -> Told:
        return Told(
            key,
            step.change,
            step.revision,
            step.timestamp,
            batch.correlation,
            step.before,
            step.after,
            self._access_to(key, step),
            batch.origin,
        )

    def _access_to(self, key: EntityKey, step: ChangeStep) -> Access | None:
        twin = step.after or step.before
        if twin is None:
            return None
        policy = twin if key.is_policy else self._lines.policy(twin.document["policyId"])
        if policy is None:
            return None
        return self._effective.of(policy, self._lines.policy).access(key.id.partition(":")[0])
