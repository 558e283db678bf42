"""Random commands against a model that knows nothing but dictionaries, over restarts, kills and power cuts."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.twins.history import PastMoment
from penstock.twins.names import TwinNames
from penstock.twins.record import Record
from penstock.twins.twin import change_of
from penstock.wire.ditto.kinds import EntityGroup
from tests.support.effort import tries
from tests.twins.world import OUTSIDER, POLICY, POLICY_DOCUMENT, World, command, policy_command

KEYS = st.sampled_from(["a", "b", "c"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 2) | st.booleans() | st.none() | st.just("text"),
    lambda inside: st.dictionaries(KEYS, inside, max_size=2) | st.lists(inside, max_size=2),
    max_leaves=5,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=3)
FEATURES = st.dictionaries(KEYS, st.fixed_dictionaries({}, optional={"properties": OBJECTS}), max_size=2)
THINGS = st.fixed_dictionaries(
    {}, optional={"attributes": OBJECTS, "features": FEATURES, "definition": st.just("a:b:c")}
)
PARTS = st.sampled_from(
    [
        (("attributes",), OBJECTS),
        (("attributes", "a"), JSON),
        (("attributes", "a", "b"), JSON),
        (("features",), FEATURES),
        (("features", "a"), st.fixed_dictionaries({}, optional={"properties": OBJECTS})),
        (("features", "a", "properties"), OBJECTS),
        (("features", "a", "properties", "b"), JSON),
        ((), THINGS),
    ]
).flatmap(lambda part: st.tuples(st.just(part[0]), part[1]))
IDS = st.sampled_from(["ns:x", "ns:y"])
TAGS = st.sampled_from(["none", "none", "none", "current", "old", "any", "absent"])

Path = tuple[str, ...]


# -- the model: as simple as it can be said ----------------------------------------------------------------------------


def find(document: Any, path: Path) -> list[Any]:
    """The value at a path in a list, or an empty list."""
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return []
        document = document[key]
    return [document]


def place(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The object that holds the last key of a path; it is made if need be."""
    for key in path[:-1]:
        if not isinstance(document.get(key), dict):
            document[key] = {}
        document = document[key]
    return document


def rfc_7396(target: Any, patch: Any) -> Any:
    """Word by word as in the RFC."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = rfc_7396(target.get(name), value)
    return target


def identical(one: Any, other: Any) -> bool:
    """1 and true are not the same in JSON; in Python they are."""
    return repr(sort(one)) == repr(sort(other))


def sort(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sort(value[key]) for key in sorted(value)}
    return [sort(each) for each in value] if isinstance(value, list) else value


class Model:
    """Things by identifier, and how many events each ever had."""

    def __init__(self) -> None:
        self.things: dict[str, dict[str, Any]] = {}
        self.revisions: dict[str, int] = {}
        # The thing after each of its events; None where there is none.
        self.past: dict[str, list[dict[str, Any] | None]] = {}

    def expect(self, action: str, id: str, path: Path, value: Any, headers: dict[str, str]) -> int:
        """The status of a command, which is done if it is to be."""
        status = self.decide(action, id, path, value, headers)
        if status in (201, 204):
            self.revisions[id] = self.revisions.get(id, 0) + 1
            self.past.setdefault(id, []).append(deepcopy(self.things.get(id)))
        return status

    def decide(self, action: str, id: str, path: Path, value: Any, headers: dict[str, str]) -> int:
        thing = self.things.get(id)
        fixed = {"thingId": id, "policyId": POLICY}
        if thing is None:
            if path or action == "delete":
                return 404
            if "if-match" in headers:
                return 412
            self.things[id] = {**fixed, **(rfc_7396({}, value) if action == "merge" else value)}
            return 201
        if action == "create":
            return 409
        present = find(thing, path)
        if present or action != "delete":
            if headers.get("if-match") not in (None, "*", f'"rev:{self.revisions[id]}"' if not path else None):
                return 412
            if (headers.get("if-match") == "*" and not present) or (headers.get("if-none-match") == "*" and present):
                return 412
        if action == "delete":
            return self.delete(id, path, thing, bool(present))
        after = deepcopy(thing)
        if action == "merge":
            return self.merge(id, path, value, thing, after, headers)
        if len(path) > 2 and path[0] == "features" and not find(thing, path[:2]):
            return 404
        if not path:
            after = {**fixed, **value}
        else:
            place(after, path)[path[-1]] = value
        if "if-equal" in headers and identical(after, thing) and present:
            return 412
        self.things[id] = after
        return 204 if present else 201

    def delete(self, id: str, path: Path, thing: dict[str, Any], present: bool) -> int:
        if not present:
            return 404
        if not path:
            del self.things[id]
        else:
            del place(thing, path)[path[-1]]
        return 204

    def merge(self, id: str, path: Path, value: Any, thing: Any, after: Any, headers: dict[str, str]) -> int:
        if not path:
            after = rfc_7396(after, value)
        elif value is not None:
            (current,) = find(after, path) or [None]
            place(after, path)[path[-1]] = rfc_7396(current, value)
        elif find(after, path):
            del place(after, path)[path[-1]]
        if "if-equal" in headers and identical(after, thing):
            return 412
        self.things[id] = after
        return 204


class Twins(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.model = Model()

    @initialize()
    def policy(self) -> None:
        self.world.ask(policy_command("create", value=POLICY_DOCUMENT))

    @rule(id=IDS, value=THINGS)
    def create(self, id: str, value: Any) -> None:
        self.do("create", id, (), value, {})

    @rule(id=IDS, part=PARTS, action=st.sampled_from(["modify", "merge", "delete"]), tag=TAGS, skip=st.booleans())
    def change(self, id: str, part: tuple[Path, Any], action: str, tag: str, skip: bool) -> None:
        headers = {} if action == "delete" or not skip else {"if-equal": "skip"}
        current = self.model.revisions.get(id, 0)
        if tag in ("current", "old"):
            headers["if-match"] = f'"rev:{current if tag == "current" else current - 1}"'
        elif tag == "any":
            headers["if-match"] = "*"
        elif tag == "absent":
            headers["if-none-match"] = "*"
        self.do(action, id, part[0], part[1], headers)

    def do(self, action: str, id: str, path: Path, value: Any, headers: dict[str, str]) -> None:
        told = len(self.world.told)
        more: dict[str, Any] = {}
        if action != "delete":
            more["value"] = {**value, "policyId": POLICY} if not path else value
        given = command(action, "/" + "/".join(path), id=id, headers=headers, **more)
        status = self.world.result(given)[0]
        assert status == self.model.expect(action, id, path, more.get("value"), headers)
        assert len(self.world.told) == told + (status in (201, 204))
        if status in (201, 204):
            assert self.world.told[-1].revision == self.model.revisions[id]

    @rule(id=IDS)
    def outsider(self, id: str) -> None:
        for action, more in (("retrieve", {}), ("delete", {}), ("modify", {"path": "/attributes/a", "value": 1})):
            assert self.world.result(command(action, id=id, **more), OUTSIDER)[0] == 404  # type: ignore[arg-type]

    @rule()
    def save(self) -> None:
        self.world.save()

    @rule(save=st.booleans())
    def restart(self, save: bool) -> None:
        self.world.restart(save=save)

    @rule(seed=st.integers(0, 1000), power=st.booleans())
    def crash(self, seed: int, power: bool) -> None:
        """All that was acknowledged is there afterwards."""
        old = self.world
        disk = old.disk.cut_power(Random(seed)) if power else old.disk.kill()
        old.close()
        self.world = World(disk)
        self.world.now = old.now

    @invariant()
    def the_state_is_that_of_the_model(self) -> None:
        assert set(self.world.twins.things()) == set(self.model.things)
        for id, thing in self.model.things.items():
            twin = self.world.twins.thing(id)
            assert twin is not None
            assert identical(twin.document, thing)
            assert twin.revision == self.model.revisions[id]
            assert identical(self.world.ask(command("retrieve", id=id)).value, thing)

    @invariant()
    def the_events_fold_to_every_state_there_ever_was(self) -> None:
        records: dict[str, list[Record]] = {}
        for record in self.world.records():
            key = TwinNames().key(record.entity)
            assert key is not None
            if key.group is EntityGroup.THINGS:
                records.setdefault(key.id, []).append(record)
        assert {id: len(each) for id, each in records.items()} == self.model.revisions
        for id, each in records.items():
            assert [record.revision for record in each] == list(range(1, len(each) + 1))
            for number, past in enumerate(self.model.past[id], 1):
                changes = ((record, change_of(EntityGroup.THINGS, record)) for record in each)
                twin = PastMoment(revision=number).fold(changes)
                assert identical(None if twin is None else twin.document, past)

    def teardown(self) -> None:
        self.world.close()


TestTwins = Twins.TestCase
TestTwins.settings = settings(
    max_examples=tries(40), stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
