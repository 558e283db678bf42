"""What later subscribers get, against a naive model that keeps every event and replays all of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.brokers.memory import FieldValues, memory_for
from penstock.wire.records.formats import decode_json, decode_text
from penstock.wire.records.mapping import RecordMapping, RecordMode
from penstock.wire.records.record import DeliveredRecord, PoisonRecord

HISTORY = 3

# An item, a row of it, and the fields that a record has; None deletes.
Step = tuple[str, str, dict[str, int] | None]

STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from("xy"),
        st.none() | st.dictionaries(st.sampled_from("pq"), st.integers(0, 3)),
    ),
    max_size=20,
)


def mapping(mode: RecordMode) -> RecordMapping:
    return RecordMapping("{topic}", {"*": "{value}"}, mode, "{key}", decode_text, decode_json)


def naive(steps: list[Step], item: str, mode: RecordMode, partial: bool) -> list[FieldValues]:
    rows: dict[str, FieldValues] = {}
    events: list[FieldValues] = []
    for of, row, given_fields in steps:
        if of != item:
            continue
        key = row if mode == "COMMAND" else ""
        if given_fields is None and mode != "DISTINCT":
            rows.pop(key, None)
            continue
        fields: FieldValues = {name: str(value) for name, value in (given_fields or {}).items()}
        if mode == "COMMAND":
            fields |= {"key": row, "command": "UPDATE"}
        events.append(fields)
        rows[key] = {**rows.get(key, {}), **fields} if partial else fields
    return events[-HISTORY:] if mode == "DISTINCT" else list(rows.values())


@pytest.mark.parametrize(
    ("mode", "partial"),
    [("MERGE", False), ("MERGE", True), ("DISTINCT", False), ("COMMAND", False), ("COMMAND", True)],
)
@given(steps=STEPS)
def test_a_snapshot_is_what_all_records_before_add_up_to(mode: RecordMode, partial: bool, steps: list[Step]) -> None:
    memory = memory_for(mapping(mode), history=HISTORY, max_items=100, partial=partial)
    for item, row, fields in steps:
        value = None if fields is None else json.dumps(fields).encode()
        memory.keep(item, DeliveredRecord(item, value, key=row.encode()))
    for item in "ab":
        events, bad = memory.snapshot(item)
        assert not bad
        assert sorted(events, key=str) == sorted(naive(steps, item, mode, partial), key=str)


def test_the_deletion_of_what_is_not_there_changes_nothing() -> None:
    for mode in ("MERGE", "COMMAND"):
        memory = memory_for(mapping(mode), history=1, max_items=1, partial=False)
        assert not memory.keep("a", DeliveredRecord("a", None, key=b"x"))
        assert memory.keep("a", DeliveredRecord("a", b"{}", key=b"x"))
        assert memory.keep("a", DeliveredRecord("a", None, key=b"x"))
        assert memory.snapshot("a") == ([], [])


@pytest.mark.parametrize("mode", ["MERGE", "DISTINCT", "COMMAND"])
def test_no_more_items_are_kept_than_allowed_and_known_ones_go_on(mode: RecordMode) -> None:
    memory = memory_for(mapping(mode), history=1, max_items=1, partial=False)
    memory.keep("a", DeliveredRecord("a", b'{"p": 1}', key=b"x"))
    with pytest.raises(PoisonRecord, match="one more than max_items = 1"):
        memory.keep("b", DeliveredRecord("b", b"{}", key=b"x"))
    memory.keep("a", DeliveredRecord("a", b'{"p": 2}', key=b"x"))
    assert memory.snapshot("a")[0][0]["p"] == "2"
    assert memory.snapshot("b") == ([], [])


def test_a_record_that_cannot_be_decoded_is_told_when_somebody_wants_it() -> None:
    memory = memory_for(mapping("MERGE"), history=1, max_items=1, partial=False)
    memory.keep("a", DeliveredRecord("a", b"{"))
    events, bad = memory.snapshot("a")
    assert events == []
    assert "not JSON" in str(bad[0])
