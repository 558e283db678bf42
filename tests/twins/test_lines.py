"""All things and policies there are, and how they come back from a state and the records after it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins import lines as module
from penstock.twins.lines import TwinLines
from penstock.twins.milestone import HEADER
from penstock.twins.names import EntityKey, TwinNames, policy_key, thing_key
from penstock.twins.record import Record
from penstock.twins.state import TwinsState
from penstock.twins.twin import Change, Twin
from penstock.wire.ditto.document import text_of
from penstock.wire.ditto.kinds import Action, EntityGroup

NAMES = TwinNames()
A, B, P = thing_key("ns:a"), thing_key("ns:b"), policy_key("ns:a")


def twin(revision: int = 1, **attributes: Any) -> Twin:
    return Twin({"thingId": "ns:a", "policyId": "ns:a", "attributes": attributes}, revision, 0, revision)


def milestone(revision: int, **attributes: Any) -> str:
    """Headers with the state after a revision."""
    found = twin(revision, **attributes)
    fields = {name: getattr(found, name) for name in ("document", "revision", "created", "modified", "metadata")}
    return text_of({HEADER: fields})


class Journal:
    """Records, one after the other."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(
        self, key: EntityKey | str, revision: int, kind: str, path: str, value: Any = None, headers: str | None = None
    ) -> None:
        entity = key if isinstance(key, str) else NAMES.entity(key)
        text = None if kind == "deleted" else text_of(value)
        self.records.append(Record(len(self.records) + 1, entity, revision, revision, kind, path, text, headers))


def restored(journal: Journal, state: TwinsState | None = None) -> TwinLines:
    lines = TwinLines(NAMES)
    lines.restore(state or TwinsState(), journal.records)
    return lines


def test_a_registry_has_what_is_on_the_disk_and_what_is_about_to_be() -> None:
    lines = TwinLines(NAMES)
    assert (lines.count, lines.head(A), lines.committed(A), lines.policy("ns:a")) == (0, None, None, None)
    assert (lines.applied, lines.skipped_records) == (0, 0)
    line = lines.line(A)
    step = line.push(Change(Action.CREATED, (), twin().document), 1, 1)
    assert (lines.count, lines.committed(A), lines.head(A)) == (1, None, step.after)
    assert list(lines.ids(EntityGroup.THINGS)) == []
    line.commit(step)
    assert lines.committed(A) == lines.head(A) == step.after
    assert list(lines.ids(EntityGroup.THINGS)) == ["ns:a"]
    assert list(lines.ids(EntityGroup.POLICIES)) == []
    assert lines.line(A) is line
    assert (lines.head(P), lines.head_policy("ns:a")) == (None, None)
    pushed = lines.line(P).push(Change(Action.CREATED, (), {"policyId": "ns:a"}), 1, 1)
    assert (lines.head_policy("ns:a"), lines.policy("ns:a")) == (pushed.after, None)


def test_only_what_is_not_there_and_not_about_to_be_is_forgotten() -> None:
    lines = TwinLines(NAMES)
    line = lines.line(A)
    step = line.push(Change(Action.CREATED, (), twin().document), 1, 1)
    lines.tidy(A, line)
    assert lines.count == 1
    line.commit(step)
    lines.tidy(A, line)
    assert lines.count == 1
    line.commit(line.push(Change(Action.DELETED, ()), 2, 2))
    lines.tidy(A, line)
    lines.tidy(A, line)
    assert lines.count == 0


def test_what_there_was_comes_back_from_the_records() -> None:
    journal = Journal()
    journal.add(A, 1, "created", "/", twin(a=1).document)
    journal.add(P, 1, "created", "/", {"policyId": "ns:a", "entries": {}})
    journal.add(B, 1, "created", "/", {"thingId": "ns:b"})
    journal.add(A, 2, "modified", "/attributes/a", 2)
    journal.add(B, 2, "deleted", "/")
    lines = restored(journal)
    assert lines.committed(A) == Twin(twin(a=2).document, 2, 1, 2)
    found = lines.policy("ns:a")
    assert found is not None
    assert found.document == {"policyId": "ns:a", "entries": {}}
    assert (lines.committed(B), lines.count) == (None, 2)
    assert (lines.applied, lines.skipped_records) == (5, 0)


def test_a_state_is_where_the_records_go_on() -> None:
    journal = Journal()
    journal.add(A, 4, "modified", "/attributes/b", 2)
    state = TwinsState(9, {NAMES.entity(A): twin(3, a=1), NAMES.entity(B): twin(1), "OTHER/ITEMS/x": twin(1)})
    lines = restored(journal, state)
    found = lines.committed(A)
    assert found is not None
    assert (found.document["attributes"], found.revision) == ({"a": 1, "b": 2}, 4)
    assert lines.count == 2
    # Of the records that are older the state has everything.
    assert lines.applied == 9
    assert restored(Journal(), state).applied == 9


def test_records_that_are_no_changes_of_ours_are_counted() -> None:
    journal = Journal()
    journal.add("OTHER/ITEMS/x", 1, "update", "/", {})
    journal.add("OTHER/ITEMS/x", 2, "update", "/", {})
    journal.add(A, 1, "created", "/", twin(a=1).document)
    journal.add(A, 2, "unknown", "/", {})
    journal.add(A, 3, "modified", "/attributes/b", 2)
    lines = restored(journal)
    assert lines.skipped_records == 3
    found = lines.committed(A)
    assert found is not None
    assert (found.document["attributes"], found.revision) == ({"a": 1, "b": 2}, 3)


def test_what_was_known_before_is_forgotten() -> None:
    lines = TwinLines(NAMES)
    lines.line(B).committed = twin()
    lines.restore(TwinsState(0, {NAMES.entity(A): twin()}), [])
    assert (lines.committed(A), lines.committed(B), lines.count) == (twin(), None, 1)


def test_a_milestone_stands_for_all_records_before_it() -> None:
    journal = Journal()
    # Not what the milestone says: it is not even looked at.
    journal.add(A, 1, "created", "/", twin(a="old").document)
    journal.add(A, 2, "modified", "/attributes/b", 0, milestone(1, a=1))
    journal.add(A, 3, "modified", "/attributes/c", 3, milestone(2, a=2))
    found = restored(journal).committed(A)
    assert found is not None
    assert (found.document["attributes"], found.revision) == ({"a": 2, "c": 3}, 3)


@pytest.mark.parametrize(("known", "a"), [(1, "old"), (3, "old"), (4, 4)])
def test_a_milestone_from_before_the_state_is_of_no_use(known: int, a: Any) -> None:
    """Between the two there are records that nobody has read; right before the first one there are none."""
    journal = Journal()
    journal.add(A, 5, "modified", "/attributes/b", 2)
    journal.add(A, 6, "modified", "/attributes/c", 3, milestone(known, a=known))
    state = TwinsState(9, {NAMES.entity(A): twin(4, a="old")})
    found = restored(journal, state).committed(A)
    assert found is not None
    assert (found.document["attributes"], found.revision) == ({"a": a, "b": 2, "c": 3}, 6)


def test_records_are_folded_whenever_enough_are_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.MAX_WAITING_RECORDS == 16_384
    folded: list[int] = []
    fold = TwinLines._fold

    def counted(lines: TwinLines, waiting: dict[EntityKey, list[Record]]) -> None:
        folded.append(sum(map(len, waiting.values())))
        fold(lines, waiting)

    monkeypatch.setattr(module, "MAX_WAITING_RECORDS", 3)
    monkeypatch.setattr(TwinLines, "_fold", counted)
    journal = Journal()
    journal.add(A, 1, "created", "/", twin(a=1).document)
    journal.add(B, 1, "created", "/", {"thingId": "ns:b"})
    # A milestone makes the record before it needless, which does not wait any more.
    journal.add(A, 2, "modified", "/attributes/b", 2, milestone(1, a=1))
    journal.add(A, 3, "modified", "/attributes/c", 3)
    journal.add(B, 2, "modified", "/attributes", {"d": 4})
    journal.add(B, 3, "modified", "/attributes/e", 5)
    lines = restored(journal)
    assert folded == [3, 2]
    found, other = lines.committed(A), lines.committed(B)
    assert found is not None
    assert other is not None
    assert found.document["attributes"] == {"a": 1, "b": 2, "c": 3}
    assert other.document["attributes"] == {"d": 4, "e": 5}


def test_what_is_captured_is_what_is_on_the_disk() -> None:
    lines = TwinLines(NAMES)
    lines.line(A).committed = twin(2, a=1)
    lines.line(A).push(Change(Action.MODIFIED, ("attributes",), {}), 3, 3)
    lines.line(B).push(Change(Action.CREATED, (), {"thingId": "ns:b"}), 1, 1)
    assert lines.captured(7) == TwinsState(7, {NAMES.entity(A): twin(2, a=1)})
