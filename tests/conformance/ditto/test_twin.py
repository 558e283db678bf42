from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.ditto.merge import merge
from tests.conformance.ditto.phrases import NO_READ, policy, row, shared
from tests.doors.ditto.world import READ, THING, World, command, refusal, revisions

FEATURE = {"properties": {"p": 1}, "desiredProperties": {"d": 2}, "definition": ["a:b:1"]}
DOCUMENT = {"attributes": {"a": {"b": 1}}, "features": {"F": FEATURE}, "definition": "x:y:1"}

# The parts of a thing: where they are, what is there, and what may be put there.
PARTS: dict[str, tuple[str, Any, Any]] = {
    "attributes": ("/attributes", {"a": {"b": 1}}, {"z": 1}),
    "attribute": ("/attributes/a/b", 1, 2),
    "features": ("/features", {"F": FEATURE}, {"G": {}}),
    "feature": ("/features/F", FEATURE, {"properties": {"q": 1}}),
    "feature-definition": ("/features/F/definition", ["a:b:1"], ["a:b:2"]),
    "properties": ("/features/F/properties", {"p": 1}, {"q": 2}),
    "property": ("/features/F/properties/p", 1, "two"),
    "desiredProperties": ("/features/F/desiredProperties", {"d": 2}, {"e": 3}),
    "desiredProperty": ("/features/F/desiredProperties/d", 2, [3]),
    "definition": ("/definition", "x:y:1", "x:y:2"),
}


def rows(action: str) -> list[Any]:
    return [row(f"twin.{action}.{part}", *values) for part, values in PARTS.items()]


def make(world: World, document: Any = DOCUMENT) -> Any:
    peer = world.connect()
    assert peer.command("create", value=document)["status"] == 201
    return peer


def history(world: World) -> list[Any]:
    peer = world.connect()
    return [answer["value"]["item"] for answer in peer.request(peer.subscribe(), 99)[:-1]]


def last_event(world: World) -> tuple[str, str, Any]:
    item = history(world)[-1]
    return item["topic"].rpartition("/")[2], item["path"], item.get("value")


# -- whole things ------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.twin.create.thing")
def test_create_answers_201_with_the_thing_under_a_policy_of_its_own(world: World) -> None:
    peer = world.connect()
    answer = peer.command("create", value=DOCUMENT, headers={"correlation-id": "c"})
    assert answer == {
        "topic": "ns/thing/things/twin/commands/create",
        "headers": {"correlation-id": "c", "content-type": "application/json", "etag": '"rev:1"'},
        "path": "/",
        "value": {"thingId": THING, "policyId": THING, **DOCUMENT},
        "status": 201,
    }
    assert last_event(world) == ("created", "/", answer["value"])
    granted = peer.command("retrieve", id=THING, group="policies")["value"]["entries"]["DEFAULT"]
    assert list(granted["subjects"]) == ["nginx:owner"]


@pytest.mark.conformance("ditto.twin.create.conflict")
def test_create_of_what_is_there_is_409(world: World) -> None:
    peer = make(world)
    assert refusal(peer.say(command("create", value={}))) == (409, "things:thing.conflict")
    assert len(history(world)) == 1


@pytest.mark.conformance("ditto.twin.create.id")
def test_an_id_in_the_thing_that_is_not_the_topic_s_is_400(world: World) -> None:
    assert refusal(world.connect().say(command("create", value={"thingId": "an:other"}))) == (
        400,
        "things:id.notsettable",
    )


@pytest.mark.conformance("ditto.twin.create.path")
def test_only_a_whole_thing_is_created(world: World) -> None:
    assert refusal(make(world).say(command("create", "/attributes", {}))) == (400, "protocoladapter:unknown.path")


@pytest.mark.conformance("ditto.twin.modify.thing")
def test_modify_of_a_whole_thing_is_204_or_makes_it_with_201(world: World) -> None:
    peer = world.connect()
    assert peer.command("modify", value={"attributes": {"a": 1}})["status"] == 201
    assert last_event(world)[0] == "created"
    answer = peer.command("modify", value={"attributes": {"b": 2}})
    assert (answer["status"], "value" in answer) == (204, False)
    assert last_event(world) == ("modified", "/", {"thingId": THING, "policyId": THING, "attributes": {"b": 2}})


@pytest.mark.conformance("ditto.twin.migrate")
def test_a_migration_to_a_definition_without_a_model_is_400(world: World) -> None:
    peer = make(world)
    wish = {"thingDefinitionUrl": "https://example.com/none"}
    assert refusal(peer.say(command("migrate", value=wish))) == (400, "wot:tm.invalid")
    assert refusal(peer.say(command("migrate", value={}))) == (400, "json.field.missing")
    assert len(history(world)) == 1


@pytest.mark.conformance("ditto.twin.merge.thing")
def test_merge_of_a_whole_thing_is_204_and_null_deletes(world: World) -> None:
    peer = make(world, {"attributes": {"a": 1, "b": 2}})
    patch = {"attributes": {"a": None, "c": 3}}
    assert peer.command("merge", value=patch)["status"] == 204
    assert peer.command("retrieve")["value"]["attributes"] == {"b": 2, "c": 3}
    assert last_event(world) == ("merged", "/", patch)


@pytest.mark.conformance("ditto.twin.merge.creates")
def test_merge_of_a_thing_that_is_not_there_makes_it_with_201(world: World) -> None:
    peer = world.connect()
    assert peer.command("merge", value={"attributes": {"a": 1, "b": None}})["status"] == 201
    assert peer.command("retrieve")["value"]["attributes"] == {"a": 1}


@pytest.mark.conformance("ditto.twin.delete.thing")
def test_delete_of_a_thing_is_204_and_its_revisions_go_on_when_it_is_made_again(world: World) -> None:
    peer = make(world)
    assert peer.command("delete")["status"] == 204
    assert refusal(peer.say(command("retrieve"))) == (404, "things:thing.notfound")
    assert peer.command("create", value={"policyId": THING})["status"] == 201
    assert [item["revision"] for item in history(world)] == [1, 2, 3]
    assert history(world)[1]["topic"].endswith("/events/deleted")


@pytest.mark.conformance("ditto.twin.retrieve.thing")
def test_retrieve_is_200_with_the_thing(world: World) -> None:
    answer = make(world).command("retrieve")
    assert (answer["status"], answer["value"]) == (200, {"thingId": THING, "policyId": THING, **DOCUMENT})
    assert answer["headers"]["etag"] == '"rev:1"'


# -- parts of things ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "there", "new"), rows("retrieve"))
def test_a_part_is_retrieved_with_200(world: World, path: str, there: Any, new: Any) -> None:
    answer = make(world).command("retrieve", path)
    assert (answer["status"], answer["value"], answer["path"]) == (200, there, path)


@pytest.mark.parametrize(("path", "there", "new"), rows("modify"))
def test_a_part_that_is_there_is_modified_with_204_and_a_new_one_made_with_201(
    world: World, path: str, there: Any, new: Any
) -> None:
    peer = make(world)
    answer = peer.command("modify", path, new)
    assert (answer["status"], "value" in answer) == (204, False)
    assert last_event(world) == ("modified", path, new)
    assert peer.command("delete", path)["status"] == 204
    answer = peer.command("modify", path, new)
    assert (answer["status"], answer["value"]) == (201, new)
    assert last_event(world) == ("created", path, new)
    assert peer.command("retrieve", path)["value"] == new


@pytest.mark.parametrize(("path", "there", "new"), rows("merge"))
def test_a_part_is_merged_with_204(world: World, path: str, there: Any, new: Any) -> None:
    peer = make(world)
    assert peer.command("merge", path, new)["status"] == 204
    assert last_event(world) == ("merged", path, new)
    assert peer.command("retrieve", path)["value"] == merge(there, new)


@pytest.mark.parametrize(("path", "there", "new"), rows("delete"))
def test_a_part_is_deleted_with_204_and_is_404_afterwards(world: World, path: str, there: Any, new: Any) -> None:
    peer = make(world)
    answer = peer.command("delete", path)
    assert (answer["status"], "value" in answer) == (204, False)
    assert last_event(world) == ("deleted", path, None)
    for action in ("retrieve", "delete"):
        status, code = refusal(peer.say(command(action, path)))
        assert (status, code.endswith(".notfound")) == (404, True)


@pytest.mark.conformance("ditto.twin.policyId")
def test_the_policy_of_a_thing_is_retrieved_and_changed_by_its_id(world: World) -> None:
    shared(world)
    peer = world.connect()
    assert peer.command("retrieve", "/policyId")["value"] == "ns:policy"
    other = policy() | {"policyId": "ns:other"}
    assert peer.command("create", value=other, id="ns:other", group="policies")["status"] == 201
    assert peer.command("modify", "/policyId", "ns:other")["status"] == 204
    assert last_event(world) == ("modified", "/policyId", "ns:other")


# -- what is refused, and conditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "path", "value", "expected"),
    [
        row("twin.bad.no-value", "modify", "/attributes", None, (400, "json.field.missing")),
        row("twin.bad.path", "modify", "/nowhere", {}, (400, "protocoladapter:unknown.path")),
        row("twin.bad.pointer", "modify", "/attributes//x", {}, (400, "json.pointer.invalid")),
        row("twin.bad.type", "modify", "/attributes", [], (400, "json.invalid")),
        row("twin.bad.merge-null", "merge", "/", {"thingId": None}, (400, "things:merge.invalid")),
        row("twin.bad.feature", "modify", "/features/X/properties/p", 1, (404, "things:feature.notfound")),
        row("twin.bad.attribute", "retrieve", "/attributes/none", None, (404, "things:attribute.notfound")),
        row("twin.bad.delete-policyId", "delete", "/policyId", None, (400, "protocoladapter:unknown.path")),
        row("twin.too-large", "modify", "/attributes/x", "x" * 110_000, (413, "things:thing.toolarge")),
    ],
)
def test_a_command_that_cannot_be_done_is_an_error_response_and_no_event(
    world: World, action: str, path: str, value: Any, expected: tuple[int, str]
) -> None:
    peer = make(world)
    answers = peer.say(command(action, path, value, headers={"correlation-id": "c"}))
    assert refusal(answers) == expected
    assert answers[0]["topic"] == "ns/thing/things/twin/errors"
    assert answers[0]["headers"]["correlation-id"] == "c"
    assert len(history(world)) == 1


@pytest.mark.conformance("ditto.twin.missing")
def test_a_part_of_a_thing_that_is_not_there_is_404(world: World) -> None:
    assert refusal(world.connect().say(command("modify", "/attributes/x", 1))) == (404, "things:thing.notfound")


@pytest.mark.conformance("ditto.twin.forbidden")
def test_who_may_read_but_not_write_is_told_403_and_outsiders_404(world: World) -> None:
    shared(world, reader={"thing:/": READ})
    message = command("modify", "/attributes/x", 2)
    assert refusal(world.connect("reader").say(message)) == (403, "things:attribute.notmodifiable")
    assert refusal(world.connect("outsider").say(message)) == (404, "things:thing.notfound")


@pytest.mark.conformance("ditto.twin.partial")
def test_a_thing_is_retrieved_without_what_may_not_be_read(world: World) -> None:
    shared(world, reader={"thing:/": READ, "thing:/attributes/x": NO_READ})
    answer = world.connect("reader").command("retrieve")
    assert answer["value"] == {"thingId": THING, "policyId": "ns:policy", "attributes": {}}


@pytest.mark.conformance("ditto.twin.fields")
def test_fields_select_what_is_retrieved(world: World) -> None:
    answer = make(world).command("retrieve", fields="thingId,attributes/a,_revision")
    assert answer["value"] == {"thingId": THING, "attributes": {"a": {"b": 1}}, "_revision": 1}


@pytest.mark.conformance("ditto.twin.if-equal")
def test_if_equal_skip_makes_no_event_of_an_equal_value(world: World) -> None:
    peer = make(world)
    message = command("modify", "/attributes/a/b", 1, headers={"if-equal": "skip"})
    assert refusal(peer.say(message)) == (412, "things:precondition.failed")
    assert len(history(world)) == 1
    assert peer.command("modify", "/attributes/a/b", 2, headers={"if-equal": "skip"})["status"] == 204


@pytest.mark.conformance("ditto.twin.if-match")
def test_if_match_lets_only_the_expected_revision_be_changed(world: World) -> None:
    peer = make(world)
    wrong = command("modify", value={}, headers={"if-match": '"rev:7"'})
    assert refusal(peer.say(wrong)) == (412, "things:precondition.failed")
    assert peer.command("modify", value={}, headers={"if-match": '"rev:1"'})["status"] == 204


@pytest.mark.conformance("ditto.twin.if-none-match")
def test_if_none_match_tells_that_nothing_has_changed(world: World) -> None:
    peer = make(world)
    asked = command("retrieve", headers={"if-none-match": '"rev:1"'})
    assert refusal(peer.say(asked)) == (304, "things:precondition.notmodified")


@pytest.mark.conformance("ditto.twin.at-historical-revision")
def test_a_thing_is_retrieved_as_it_was_at_a_revision(world: World) -> None:
    world.make(events=5)
    answer = world.connect().command("retrieve", headers={"at-historical-revision": 3})
    assert answer["value"]["attributes"] == {"counter": 2}


@pytest.mark.conformance("ditto.twin.at-historical-timestamp")
def test_a_thing_is_retrieved_as_it_was_before_a_time(world: World) -> None:
    world.make(events=5)
    stamp = history(world)[2]["timestamp"]
    answer = world.connect().command("retrieve", "/attributes/counter", headers={"at-historical-timestamp": stamp})
    assert answer["value"] == 1


@pytest.mark.conformance("ditto.twin.at-historical.outside")
def test_what_was_not_yet_is_404_at_once(world: World) -> None:
    world.make(events=2)
    asked = command("retrieve", headers={"at-historical-revision": 785})
    assert refusal(world.connect().say(asked)) == (404, "things:thing.history.notfound")


@pytest.mark.conformance("ditto.twin.durable")
def test_an_answered_change_is_in_the_history_at_once(world: World) -> None:
    peer = make(world)
    for number in range(20):
        assert peer.command("modify", "/attributes/n", number)["status"] in (201, 204)
        (last, _) = peer.request(peer.subscribe(fromHistoricalRevision=-1), 1)
        assert revisions([last]) == [number + 2]
        assert last["value"]["item"]["value"] == number


@pytest.mark.conformance("ditto.twin.order")
def test_commands_of_one_connection_are_done_in_their_order(world: World) -> None:
    peer = make(world)
    world.work.stands_still = True
    for number in range(50):
        peer.say(command("modify", "/attributes/n", number, headers={"correlation-id": str(number)}))
    world.work.stands_still = False
    answers = peer.hear()
    assert [answer["headers"]["correlation-id"] for answer in answers] == [str(number) for number in range(50)]
    assert [item["value"] for item in history(world)[1:]] == list(range(50))
