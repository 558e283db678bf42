from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from penstock.twins.told import trimmed
from penstock.twins.twin import Change
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.pointer import MISSING, Absent, Pointer
from tests.twins.test_access import PATCHES, PATHS, RULES, built, leaves, naive, naive_visible

Rules = list[tuple[Pointer, bool]]


def trim(change: Change, rules: Rules) -> Any:
    found = trimmed(change, built(rules))
    return MISSING if found is None else found.value


@given(RULES, PATHS, PATCHES, st.sampled_from([Action.CREATED, Action.MODIFIED]))
def test_a_new_value_is_told_as_far_as_it_is_visible(rules: Rules, path: Pointer, value: Any, kind: Action) -> None:
    assert trim(Change(kind, path, value), rules) == naive_visible(rules, value, path)


@given(RULES, PATHS, PATCHES)
def test_a_patch_tells_nothing_but_what_may_be_read_and_what_is_gone(rules: Rules, path: Pointer, patch: Any) -> None:
    scope = built(rules)
    told = trim(Change(Action.MERGED, path, patch), rules)
    kept = [] if isinstance(told, Absent) else leaves(told, path)
    written = leaves(patch, path)
    assert set(kept) <= set(written)
    for leaf in written:
        value = value_at(patch, leaf[len(path) :])
        visible = scope.touches(leaf) if value is None else naive(rules, leaf)
        assert (leaf in kept) is visible
        if visible:
            assert value_at(told, leaf[len(path) :]) == value


def value_at(value: Any, path: Pointer) -> Any:
    for key in path:
        value = value[key]
    return value


@given(RULES, PATHS)
def test_what_is_gone_is_told_to_those_who_could_read_any_of_it(rules: Rules, path: Pointer) -> None:
    told = trim(Change(Action.DELETED, path), rules)
    assert told is (UNSET if built(rules).touches(path) else MISSING)
