"""The states of one thing while its changes are on their way to the disk."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.line import ChangeLine
from penstock.twins.twin import Change, Twin
from penstock.wire.ditto.kinds import Action

CREATED = Change(Action.CREATED, (), {"a": 0})
DELETED = Change(Action.DELETED, ())


def modified(name: str, value: Any) -> Change:
    return Change(Action.MODIFIED, (name,), value)


def document(twin: Twin | None) -> Any:
    return None if twin is None else twin.document


def test_the_head_is_what_the_next_command_builds_on() -> None:
    line = ChangeLine()
    assert (line.head, line.is_idle) == (None, True)
    first = line.push(CREATED, 1, 10)
    second = line.push(modified("b", 1), 2, 20)
    assert (first.before, document(first.after), document(second.before)) == (None, {"a": 0}, {"a": 0})
    assert line.head == Twin({"a": 0, "b": 1}, 2, 10, 20)
    assert (line.committed, line.is_idle) == (None, False)


def test_what_is_on_the_disk_is_committed_in_its_order() -> None:
    line = ChangeLine(Twin({"a": 5}, 1, 0, 0))
    first, second = line.push(modified("a", 6), 2, 10), line.push(DELETED, 3, 20)
    line.commit(first)
    assert (document(line.committed), line.head, line.is_idle) == ({"a": 6}, None, False)
    line.commit(second)
    assert (line.committed, line.head, line.is_idle) == (None, None, True)


def test_what_was_built_on_a_change_that_is_dropped_builds_on_the_state_before_it() -> None:
    line = ChangeLine(Twin({"a": 5}, 1, 0, 0))
    first, second, third = (
        line.push(modified(name, 1), number, number) for number, name in ((2, "b"), (3, "c"), (4, "d"))
    )
    line.drop(first)
    assert (document(second.before), document(second.after)) == ({"a": 5}, {"a": 5, "c": 1})
    assert (document(third.before), document(third.after)) == ({"a": 5, "c": 1}, {"a": 5, "c": 1, "d": 1})
    assert document(line.committed) == {"a": 5}
    assert document(line.head) == {"a": 5, "c": 1, "d": 1}


def test_steps_that_end_in_another_order_are_a_mistake_of_the_program() -> None:
    line = ChangeLine()
    line.push(CREATED, 1, 10)
    second = line.push(DELETED, 2, 20)
    with pytest.raises(RuntimeError, match="out of order"):
        line.commit(second)
