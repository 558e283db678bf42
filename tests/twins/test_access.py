from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.twins.access import Access, Permission, ResourceKind, Scope
from penstock.wire.ditto.pointer import MISSING, Absent, Pointer, parse_pointer

ME = frozenset(["me"])


def policy(*entries: tuple[set[str], dict[str, tuple[list[str], list[str]]]]) -> dict[str, Any]:
    return {
        "policyId": "ns:p",
        "entries": {
            str(number): {
                "subjects": {name: {} for name in names},
                "resources": {path: {"grant": grant, "revoke": revoke} for path, (grant, revoke) in resources.items()},
            }
            for number, (names, resources) in enumerate(entries)
        },
    }


def scope(*rules: tuple[str, str]) -> Scope:
    """Of one subject, whose permission is granted (+) or revoked (-) at paths."""
    result = Scope()
    for path, sign in rules:
        result.add(parse_pointer(path), sign == "+")
    return result


@pytest.mark.parametrize(
    ("rules", "path", "covers", "covers_all", "touches"),
    [
        ([], "/", False, False, False),
        ([("/", "+")], "/", True, True, True),
        ([("/", "+")], "/a/b", True, True, True),
        ([("/", "-")], "/a", False, False, False),
        ([("/a", "+")], "/", False, False, True),
        ([("/a", "+")], "/a/b", True, True, True),
        ([("/a", "+")], "/b", False, False, False),
        # The deepest decides, a revoke as well as a grant.
        ([("/", "+"), ("/a", "-")], "/", True, False, True),
        ([("/", "+"), ("/a", "-")], "/a/b", False, False, False),
        ([("/", "+"), ("/a", "-")], "/b", True, True, True),
        ([("/", "-"), ("/a", "+")], "/a", True, True, True),
        ([("/", "-"), ("/a", "+")], "/", False, False, True),
        ([("/", "+"), ("/a", "-"), ("/a/b", "+")], "/a", False, False, True),
        ([("/", "+"), ("/a", "-"), ("/a/b", "+")], "/a/b/c", True, True, True),
        # At a tie the revoke.
        ([("/a", "+"), ("/a", "-")], "/a", False, False, False),
        ([("/a", "-"), ("/a", "+")], "/a", False, False, False),
        ([("/", "-"), ("/a", "+"), ("/a", "-")], "/", False, False, False),
        ([("/", "+"), ("/a", "+"), ("/a", "-")], "/", True, False, True),
    ],
)
def test_the_deepest_decides_and_at_a_tie_the_revoke(
    rules: list[tuple[str, str]], path: str, covers: bool, covers_all: bool, touches: bool
) -> None:
    found = scope(*rules)
    pointer = parse_pointer(path)
    assert (found.covers(pointer), found.covers_all(pointer), found.touches(pointer)) == (covers, covers_all, touches)


def test_rights_are_those_of_all_subjects_together() -> None:
    access = Access(
        policy(
            ({"me", "you"}, {"thing:/": (["READ"], [])}),
            ({"you"}, {"thing:/attributes": ([], ["READ"]), "policy:/": (["READ"], [])}),
        )
    )
    mine, both = access.rights(ME), access.rights(frozenset(["me", "you"]))
    assert mine.scope(ResourceKind.THING, Permission.READ).covers(("attributes",))
    assert not both.scope(ResourceKind.THING, Permission.READ).covers(("attributes",))
    assert not mine.scope(ResourceKind.POLICY, Permission.READ).touches(())
    assert both.scope(ResourceKind.POLICY, Permission.READ).covers(())
    assert not both.scope(ResourceKind.THING, Permission.WRITE).touches(())
    assert not access.rights(frozenset(["else"])).scope(ResourceKind.THING, Permission.READ).touches(())


def test_rights_are_remembered_for_a_limited_number_of_subjects() -> None:
    access = Access(policy(({"me"}, {"thing:/": (["READ"], [])})))
    first = access.rights(ME)
    assert access.rights(ME) is first
    for number in range(255):
        access.rights(frozenset([str(number)]))
    assert access.rights(ME) is first
    # One more than are remembered.
    access.rights(frozenset(["last"]))
    again = access.rights(ME)
    assert again is not first
    assert again.scope(ResourceKind.THING, Permission.READ).covers(())


def test_an_object_stays_when_it_is_covered_and_all_in_it_is_not() -> None:
    found = scope(("/", "+"), ("/a/b", "-"))
    assert found.visible({"a": {"b": 1}, "c": [{"b": 1}]}) == {"a": {}, "c": [{"b": 1}]}
    assert scope(("/a/b", "+")).visible({"a": {"c": 1}}) is MISSING
    assert scope(("/a/b", "+")).visible({"a": 5}) is MISSING
    assert scope(("/a/b", "+")).visible({"b": 1, "c": 2}, ("a",)) == {"b": 1}


# -- against an evaluator that walks every path ------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(KEYS, max_size=4).map(tuple)
RULES = st.lists(st.tuples(PATHS, st.booleans()), max_size=8)
DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 3) | st.just([1]), lambda inside: st.dictionaries(KEYS, inside, max_size=3), max_leaves=12
)


def naive(rules: list[tuple[Pointer, bool]], path: Pointer) -> bool:
    """Look at all rules above or at the path; the longest decide, and one revoke among them is enough."""
    above = [(pointer, granted) for pointer, granted in rules if path[: len(pointer)] == pointer]
    longest = max((len(pointer) for pointer, _ in above), default=None)
    deciding = [granted for pointer, granted in above if len(pointer) == longest]
    return bool(deciding) and all(deciding)


def naive_visible(rules: list[tuple[Pointer, bool]], value: Any, path: Pointer) -> Any:
    if not isinstance(value, dict):
        return value if naive(rules, path) else MISSING
    inside = {key: naive_visible(rules, each, (*path, key)) for key, each in value.items()}
    left = {key: each for key, each in inside.items() if not isinstance(each, Absent)}
    return left if left or naive(rules, path) else MISSING


def built(rules: list[tuple[Pointer, bool]]) -> Scope:
    found = Scope()
    for pointer, granted in rules:
        found.add(pointer, granted)
    return found


@given(RULES, PATHS)
@example([(("a",), True), (("a",), False)], ())
def test_a_scope_says_what_walking_every_path_says(rules: list[tuple[Pointer, bool]], path: Pointer) -> None:
    found = built(rules)
    # All places that any rule is about, and one below each: there is nothing else that could be different.
    places = {path} | {pointer for pointer, _ in rules if pointer[: len(path)] == path}
    below = places | {(*place, "z") for place in places}
    assert found.covers(path) is naive(rules, path)
    assert found.covers_all(path) is all(naive(rules, place) for place in below)
    assert found.touches(path) is any(naive(rules, place) for place in below)


@given(RULES, DOCUMENTS, PATHS)
def test_what_is_visible_is_what_walking_every_path_finds(
    rules: list[tuple[Pointer, bool]], document: Any, path: Pointer
) -> None:
    assert built(rules).visible(document, path) == naive_visible(rules, document, path)


PATCHES: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 3) | st.none(), lambda inside: st.dictionaries(KEYS, inside, max_size=3), max_leaves=8
)


def leaves(patch: Any, path: Pointer) -> list[Pointer]:
    if not isinstance(patch, dict) or not patch:
        return [path]
    return [leaf for key, inside in patch.items() for leaf in leaves(inside, (*path, key))]


@given(RULES, PATCHES, PATHS)
def test_a_patch_is_covered_when_all_that_it_writes_is(
    rules: list[tuple[Pointer, bool]], patch: Any, path: Pointer
) -> None:
    found = built(rules)
    expected = found.covers_all(path) or all(found.covers_all(leaf) for leaf in leaves(patch, path))
    assert found.covers_patch(path, patch) is expected
