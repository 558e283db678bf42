"""Commands under random policies, against somebody who reads the policy's document and walks every path."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.ditto.answers import error_of
from penstock.twins.access import Access
from penstock.twins.enforcement import enforce, has_history
from penstock.twins.reasons import TwinRefusal
from penstock.twins.retrieval import retrieve
from penstock.twins.twin import Twin
from penstock.wire.ditto.kinds import EntityGroup
from tests.twins.world import THING, asked_of_one

Path = tuple[str, ...]

# Few places, so that rules meet: in them everything there can be of grants, revokes, subjects and kinds.
PLACES: list[Path] = [
    (),
    ("policyId",),
    ("attributes",),
    ("attributes", "a"),
    ("attributes", "a", "b"),
    ("attributes", "c"),
    ("features",),
    ("features", "f"),
    ("features", "f", "properties"),
    ("features", "f", "properties", "p"),
]
PATHS = st.sampled_from(PLACES)
PERMISSIONS = st.lists(st.sampled_from(["READ", "WRITE"]), unique=True, max_size=2)
EFFECTS = st.fixed_dictionaries({"grant": PERMISSIONS, "revoke": PERMISSIONS})
RESOURCES = st.dictionaries(
    st.tuples(st.sampled_from(["thing", "thing", "policy"]), PATHS).map(lambda each: f"{each[0]}:/{'/'.join(each[1])}"),
    EFFECTS,
    max_size=4,
)
ENTRIES = st.fixed_dictionaries(
    {"subjects": st.dictionaries(st.sampled_from(["me", "we", "you"]), st.just({}), max_size=2), "resources": RESOURCES}
)
POLICIES = st.dictionaries(st.sampled_from(["A", "B", "C"]), ENTRIES, max_size=3).map(
    lambda entries: {"policyId": "ns:p", "entries": entries}
)
SUBJECTS = st.sampled_from([frozenset(["me"]), frozenset(["me", "we"])])

DOCUMENT: dict[str, Any] = {
    "thingId": THING,
    "policyId": "ns:p",
    "attributes": {"a": {"b": 1, "x": [1, {"y": 2}]}, "c": {}},
    "features": {"f": {"properties": {"p": 1, "q": 2}}, "g": {}},
}
TWIN = Twin(DOCUMENT, 1, 1, 1)


def allowed(policy: dict[str, Any], subjects: frozenset[str], permission: str, path: Path) -> bool:
    """By the deepest of all rules for the path; one revoke at that depth is enough."""
    depth, granted = -1, False
    for entry in policy["entries"].values():
        if not subjects & set(entry["subjects"]):
            continue
        for name, effect in entry["resources"].items():
            kind, _, text = name.partition(":/")
            place = tuple(text.split("/")) if text else ()
            if kind != "thing" or path[: len(place)] != place or len(place) < depth:
                continue
            for word, is_grant in (("grant", True), ("revoke", False)):
                if permission in effect[word]:
                    granted = is_grant if len(place) > depth else granted and is_grant
                    depth = len(place)
    return granted


def every_path(value: Any, path: Path = ()) -> list[Path]:
    found = [path]
    if isinstance(value, dict):
        for key, inside in value.items():
            found += every_path(inside, (*path, key))
    return found


# Also those that are not there, but that rules may be about.
ALL_PATHS = {*every_path(DOCUMENT), ("attributes", "new"), ("features", "f", "properties", "new")}


def visible(policy: Any, subjects: frozenset[str], value: Any, path: Path) -> list[Any]:
    """The value without what must not be read, in a list; an empty list if nothing is left."""
    mine = allowed(policy, subjects, "READ", path)
    if not isinstance(value, dict):
        return [value] if mine else []
    left = {key: visible(policy, subjects, inside, (*path, key)) for key, inside in value.items()}
    seen = {key: each[0] for key, each in left.items() if each}
    return [seen] if seen or mine else []


def status(policy: Any, subjects: frozenset[str], action: str, path: Path, value: Any = None) -> tuple[int, Any]:
    text = "/" + "/".join(path)
    rights = Access(policy).rights(subjects)
    try:
        if action == "retrieve":
            return 200, retrieve(asked_of_one("retrieve", text), TWIN, rights, None).value
        enforce(asked_of_one(action, text, **({} if action == "delete" else {"value": value})), rights)
        return 204, None
    except TwinRefusal as refusal:
        error = error_of(refusal)
        return error.status, error.code


@given(POLICIES, SUBJECTS)
def test_readers_get_what_walking_every_path_finds(policy: dict[str, Any], subjects: frozenset[str]) -> None:
    anything = any(allowed(policy, subjects, "READ", path) for path in ALL_PATHS)
    for path in every_path(DOCUMENT):
        if path == ("thingId",) or "x" in path:
            continue
        value: Any = DOCUMENT
        for key in path:
            value = value[key]
        seen = visible(policy, subjects, value, path)
        found = status(policy, subjects, "retrieve", path)
        if not path:
            whole = {"thingId": THING, **(seen[0] if seen else {})}
            assert found == ((200, whole) if anything else (404, "things:thing.notfound"))
        elif seen:
            assert found == (200, seen[0])
        else:
            assert found[0] == 404
            assert (found[1] == "things:thing.notfound") is (not anything or path == ("policyId",))


@given(POLICIES, SUBJECTS)
def test_writers_need_all_that_is_below(policy: dict[str, Any], subjects: frozenset[str]) -> None:
    anything = any(allowed(policy, subjects, "READ", path) for path in ALL_PATHS)
    for path, value in (
        ((), {}),
        (("attributes",), {}),
        (("attributes", "a"), 1),
        (("attributes", "a", "b"), 1),
        (("attributes", "new"), 1),
        (("features",), {}),
        (("features", "f"), {}),
        (("features", "f", "properties", "p"), 1),
    ):
        below = [each for each in ALL_PATHS if each[: len(path)] == path]
        may = all(allowed(policy, subjects, "WRITE", each) for each in below)
        expected = 204 if may else 403 if anything else 404
        assert status(policy, subjects, "modify", path, value)[0] == expected
        assert status(policy, subjects, "delete", path)[0] == expected


@given(POLICIES, SUBJECTS)
def test_history_is_for_those_who_may_read_every_path(policy: dict[str, Any], subjects: frozenset[str]) -> None:
    rights = Access(policy).rights(subjects)
    expected = all(allowed(policy, subjects, "READ", path) for path in ALL_PATHS)
    assert has_history(EntityGroup.THINGS, rights) is expected
