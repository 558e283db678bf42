from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import UNSET

from penstock.twins.policies import keeps_a_writer
from penstock.wire.ditto.kinds import Action
from tests.twins.world import (
    ALL,
    OUTSIDER,
    POLICY,
    POLICY_DOCUMENT,
    READ,
    READER,
    World,
    command,
    entry,
    event,
    policy_command,
)

MINE = entry("nginx:owner", **{"thing:/": ALL, "policy:/": ALL})
OTHER = entry("nginx:x", **{"thing:/attributes": READ})


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.ask(policy_command("create", value=POLICY_DOCUMENT))
    world.told.clear()
    yield world
    world.close()


# -- every command to every part ---------------------------------------------------------------------------------------

# Part, value, and status and event of modify, delete and retrieve.
PARTS: list[tuple[str, Any, str, str, str]] = [
    ("/", {"entries": {"A": MINE}}, "204 modified", "204 deleted", "200"),
    ("/entries", {"A": MINE}, "204 modified", "400 unknown.path", "200"),
    ("/entries/READER", OTHER, "204 modified", "204 deleted", "200"),
    ("/entries/NEW", OTHER, "201 created", "404 entry.notfound", "404 entry.notfound"),
    ("/entries/READER/subjects", {"nginx:x": {"type": "t"}}, "204 modified", "400 unknown.path", "200"),
    ("/entries/READER/subjects/nginx:reader", {"type": "t"}, "204 modified", "204 deleted", "200"),
    ("/entries/READER/subjects/a:b/c", {"type": "t"}, "201 created", "404 subject.notfound", "404 subject.notfound"),
    ("/entries/READER/resources", {"thing:/": READ}, "204 modified", "400 unknown.path", "200"),
    ("/entries/READER/resources/thing:/", ALL, "204 modified", "204 deleted", "200"),
    (
        "/entries/READER/resources/thing:/features/f",
        ALL,
        "201 created",
        "404 resource.notfound",
        "404 resource.notfound",
    ),
    ("/entries/NEW/subjects", {}, "404 entry.notfound", "404 entry.notfound", "404 entry.notfound"),
    ("/entries/NEW/subjects/a:b", {}, "404 entry.notfound", "404 entry.notfound", "404 entry.notfound"),
    ("/entries/NEW/resources", {}, "404 entry.notfound", "404 entry.notfound", "404 entry.notfound"),
    ("/entries/NEW/resources/thing:/", ALL, "404 entry.notfound", "404 entry.notfound", "404 entry.notfound"),
]
ROWS = [
    (action, row[0], row[1] if action == "modify" else UNSET, row[2 + number])
    for row in PARTS
    for number, action in enumerate(("modify", "delete", "retrieve"))
]


@pytest.mark.parametrize(("action", "path", "value", "expected"), ROWS)
def test_a_command_to_a_part_does_what_it_says(world: World, action: str, path: str, value: Any, expected: str) -> None:
    status, code = world.result(policy_command(action, path, value))
    words = [str(status), *([] if code is None else [code.partition(":")[2]]), *(t.change.kind for t in world.told)]
    assert " ".join(words) == expected
    if status in (201, 204) and action == "modify":
        seen = world.ask(policy_command("retrieve", path)).value
        assert seen == ({"policyId": POLICY, **value} if path == "/" else value)
        assert world.told[0].change.path == path
    elif status == 204:
        assert world.refused(policy_command("retrieve", path)).status == 404
    before = world.twins.policy(POLICY)
    world.restart()
    assert world.twins.policy(POLICY) == before


@pytest.mark.parametrize("path", [row[0] for row in PARTS])
@pytest.mark.parametrize("action", ["modify", "delete", "retrieve"])
def test_an_outsider_meets_the_same_whether_or_not_there_is_a_policy(world: World, action: str, path: str) -> None:
    value = {row[0]: row[1] for row in PARTS}[path] if action == "modify" else UNSET
    if (action, path) == ("modify", "/"):
        # It would make the policy, if it were the outsider's own.
        value = {"entries": {"A": entry("nginx:outsider", **{"policy:/": ALL})}}
    forbidden = world.refused(policy_command(action, path, value), OUTSIDER)
    assert (forbidden.status, forbidden.code) == (404, "policies:policy.notfound")
    if (action, path) != ("modify", "/"):
        world.ask(policy_command("delete"))
        assert world.refused(policy_command(action, path, value), OUTSIDER) == forbidden


@pytest.mark.parametrize("path", [row[0] for row in PARTS])
def test_a_reader_may_read_every_part_and_write_none(world: World, path: str) -> None:
    value = {row[0]: row[1] for row in PARTS}[path]
    for given in (policy_command("modify", path, value), policy_command("delete", path)):
        assert world.result(given, READER) == (403, "policies:policy.notmodifiable")
    if "NEW" not in path and "a:b" not in path and "features" not in path:
        assert world.result(policy_command("retrieve", path), READER) == (200, None)
    assert not world.told


def test_a_policy_is_created_once_and_counts_on_after_it_was_deleted(world: World) -> None:
    assert world.result(policy_command("create", value=POLICY_DOCUMENT)) == (409, "policies:policy.conflict")
    assert world.ask(policy_command("delete")).etag is None
    outcome = world.ask(policy_command("modify", value=POLICY_DOCUMENT))
    assert (outcome.status, outcome.value, outcome.etag) == (201, POLICY_DOCUMENT, '"rev:3"')
    assert event(world.told[-1]).envelope().to_json() == {
        "topic": "ns/policy/policies/events/created",
        "headers": {"content-type": "application/json"},
        "path": "/",
        "value": POLICY_DOCUMENT,
        "revision": 3,
        "timestamp": "2023-11-14T22:13:24Z",
    }


def test_what_is_wrong_with_a_new_policy_tells_an_outsider_nothing_of_an_old_one(world: World) -> None:
    for action in ("create", "modify"):
        for value, headers, status in (
            (POLICY_DOCUMENT, {}, 403),
            ({"entries": {}}, {}, 403),
            (POLICY_DOCUMENT, {"if-match": "*"}, 412),
        ):
            new = policy_command(action, value={"entries": value["entries"]}, headers=headers, id="ns:new")
            old = policy_command(action, value=value, headers=headers)
            missing, forbidden = world.refused(new, OUTSIDER), world.refused(old, OUTSIDER)
            assert missing.status == forbidden.status == status
            assert missing.message.replace("ns:new", POLICY) == forbidden.message


def test_what_a_policy_leaves_out_is_written_down(world: World) -> None:
    world.ask(policy_command("modify", "/entries/NEW", {"resources": {"thing:/": {"grant": ["READ"]}}}))
    assert world.ask(policy_command("retrieve", "/entries/NEW")).value == {
        "subjects": {},
        "resources": {"thing:/": READ},
    }


@pytest.mark.parametrize(
    ("action", "path", "value", "code"),
    [
        ("modify", "/", {"entries": {}}, "policies:policy.modificationinvalid"),
        ("modify", "/entries", {"READER": OTHER}, "policies:policy.modificationinvalid"),
        ("modify", "/entries/OWNER", OTHER, "policies:entry.modificationinvalid"),
        ("delete", "/entries/OWNER", UNSET, "policies:entry.modificationinvalid"),
        ("modify", "/entries/OWNER/subjects", {}, "policies:entry.modificationinvalid"),
        ("delete", "/entries/OWNER/subjects/nginx:owner", UNSET, "policies:entry.modificationinvalid"),
        ("modify", "/entries/OWNER/resources", {"thing:/": ALL}, "policies:entry.modificationinvalid"),
        ("modify", "/entries/OWNER/resources/policy:/", READ, "policies:entry.modificationinvalid"),
        ("delete", "/entries/OWNER/resources/policy:/", UNSET, "policies:entry.modificationinvalid"),
        (
            "modify",
            "/entries/NEW",
            entry("nginx:owner", **{"policy:/": {"grant": [], "revoke": ["WRITE"]}}),
            "policies:entry.modificationinvalid",
        ),
    ],
)
def test_a_policy_keeps_somebody_who_may_write_it(world: World, action: str, path: str, value: Any, code: str) -> None:
    assert world.result(policy_command(action, path, value)) == (403, code)
    assert world.ask(policy_command("retrieve")).value == POLICY_DOCUMENT


def test_the_last_writer_may_go_when_another_has_come(world: World) -> None:
    world.ask(policy_command("modify", "/entries/SECOND", entry("nginx:second", **{"policy:/": ALL})))
    assert world.result(policy_command("delete", "/entries/OWNER")) == (204, None)
    assert world.result(policy_command("retrieve")) == (404, "policies:policy.notfound")


def test_a_writer_is_one_who_is_not_revoked_it_elsewhere() -> None:
    revoked = entry("a", **{"policy:/": {"grant": [], "revoke": ["WRITE"]}})
    both = {"subjects": {"a": {}, "b": {}}, "resources": {"policy:/": ALL}}
    assert keeps_a_writer({"entries": {"1": both, "2": revoked}})
    assert not keeps_a_writer({"entries": {"1": entry("a", **{"policy:/": ALL}), "2": revoked}})
    assert not keeps_a_writer({"entries": {"1": entry("a", **{"policy:/entries": ALL})}})


def test_nobody_makes_a_policy_that_is_not_theirs(world: World) -> None:
    theirs = {"entries": {"A": entry("nginx:outsider", **{"policy:/": ALL})}}
    assert world.result(policy_command("create", value=theirs, id="ns:new")) == (403, "policies:policy.notmodifiable")
    partly = {
        "entries": {"A": MINE, "B": entry("nginx:owner", **{"policy:/entries": {"grant": [], "revoke": ["WRITE"]}})}
    }
    assert world.result(policy_command("create", value=partly, id="ns:new"))[0] == 403


def test_a_policy_of_more_than_100_kilobytes_is_refused(world: World) -> None:
    large: dict[str, Any] = {"subjects": {"x" * 102_400: {}}, "resources": {}}
    assert world.result(policy_command("modify", "/entries/NEW", large)) == (413, "policies:policy.toolarge")
    value = {"entries": {"A": MINE, "B": large}}
    assert world.result(policy_command("create", value=value, id="ns:new")) == (413, "policies:policy.toolarge")


def test_a_policy_does_not_get_deeper_than_a_message_may_be(world: World) -> None:
    subject: Any = 1
    for _ in range(126):
        subject = {"d": subject}
    assert world.result(policy_command("modify", "/entries/READER/subjects/x", subject)) == (400, "json.invalid")


def test_a_changed_policy_decides_at_once(world: World) -> None:
    world.ask(command("create", value={"policyId": POLICY, "attributes": {"a": 1}}))
    assert world.result(command("modify", "/attributes/a", 2), READER)[0] == 403
    world.ask(policy_command("modify", "/entries/READER/resources/thing:/attributes", ALL))
    assert world.result(command("modify", "/attributes/a", 2), READER)[0] == 204
    world.ask(policy_command("delete", "/entries/READER"))
    assert world.result(command("retrieve"), READER)[0] == 404


def test_a_partial_reader_of_a_policy_sees_a_part_of_it_and_of_its_events(world: World) -> None:
    world.ask(policy_command("modify", "/entries/P", entry("nginx:outsider", **{"policy:/entries/READER": READ})))
    assert world.ask(policy_command("retrieve"), OUTSIDER).value == {
        "policyId": POLICY,
        "entries": {"READER": POLICY_DOCUMENT["entries"]["READER"]},
    }
    assert world.result(policy_command("retrieve", "/entries/OWNER"), OUTSIDER) == (404, "policies:entry.notfound")
    world.told.clear()
    world.ask(policy_command("modify", "/entries/X", OTHER))
    world.ask(policy_command("modify", "/entries/READER", OTHER))
    heard = [told.change_for(OUTSIDER.subjects) for told in world.told]
    assert heard[0] is None
    assert heard[1] is not None
    assert heard[1].kind is Action.MODIFIED


def test_setting_a_policy_to_what_it_is_can_be_skipped(world: World) -> None:
    given = policy_command("modify", value=POLICY_DOCUMENT, headers={"if-equal": "skip"})
    assert world.result(given) == (412, "policies:precondition.failed")
    assert not world.told
    assert world.result(policy_command("modify", value=POLICY_DOCUMENT)) == (204, None)
