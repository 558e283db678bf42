from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest

from tests.conformance.ditto.phrases import row
from tests.doors.ditto.site import EVENTS, MERGE, Site

NAMES = (f"ns:http-{number}" for number in itertools.count())


@pytest.fixture
def thing(alice: httpx.Client) -> str:
    """The address of a thing with three events."""
    address = f"/things/{next(NAMES)}"
    assert alice.put(address, json={"attributes": {"n": 1, "m": 0}}).status_code == 201
    for number in (2, 3):
        assert alice.put(f"{address}/attributes/n", json=number).status_code == 204
    return address


def error(answer: httpx.Response) -> tuple[int, str]:
    assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()["error"]


@pytest.mark.conformance("ditto.http.POST")
def test_post_makes_a_thing_and_its_id(alice: httpx.Client) -> None:
    answer = alice.post("/things", json={"attributes": {"x": 1}})
    assert answer.status_code == 201
    assert answer.headers["location"].endswith(answer.json()["thingId"])
    assert error(alice.post("/things", json={"thingId": "a:b"})) == (400, "things:id.notsettable")


@pytest.mark.conformance("ditto.http.PUT")
def test_put_is_201_for_what_is_new_and_204_for_what_is_there(alice: httpx.Client, thing: str) -> None:
    assert alice.put(f"{thing}/attributes/new", json=1).status_code == 201
    answer = alice.put(f"{thing}/attributes/new", json=2)
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.conformance("ditto.http.PATCH")
def test_patch_merges(alice: httpx.Client, thing: str) -> None:
    answer = alice.patch(thing, content=json.dumps({"attributes": {"m": None, "x": 1}}), headers=MERGE)
    assert answer.status_code == 204
    assert alice.get(f"{thing}/attributes").json() == {"n": 3, "x": 1}


@pytest.mark.conformance("ditto.http.PATCH.type")
def test_patch_of_another_type_is_415(alice: httpx.Client, thing: str) -> None:
    assert alice.patch(thing, content="x", headers={"content-type": "text/plain"}).status_code == 415


@pytest.mark.conformance("ditto.http.DELETE")
def test_delete_is_204_and_then_it_is_404(alice: httpx.Client, thing: str) -> None:
    assert alice.delete(thing).status_code == 204
    assert error(alice.get(thing)) == (404, "things:thing.notfound")


@pytest.mark.conformance("ditto.http.GET")
def test_get_is_200_with_the_thing_and_its_tag(alice: httpx.Client, thing: str) -> None:
    answer = alice.get(thing)
    assert (answer.status_code, answer.headers["etag"]) == (200, '"rev:3"')
    assert answer.json()["attributes"] == {"n": 3, "m": 0}


@pytest.mark.conformance("ditto.http.GET.fields")
def test_get_shows_the_fields_that_are_asked_for(alice: httpx.Client, thing: str) -> None:
    assert alice.get(thing, params={"fields": "attributes/n,_revision"}).json() == {
        "attributes": {"n": 3},
        "_revision": 3,
    }


@pytest.mark.conformance("ditto.http.GET.ids")
def test_get_reads_several_by_their_ids(alice: httpx.Client, thing: str) -> None:
    id = thing.removeprefix("/things/")
    found = alice.get("/things", params={"ids": f"{id},no:such"}).json()
    assert [each["thingId"] for each in found] == [id]


@pytest.mark.conformance("ditto.http.escaped")
def test_the_colon_of_an_id_may_be_escaped(alice: httpx.Client, thing: str) -> None:
    assert alice.get(thing.replace(":", "%3A")).status_code == 200


@pytest.mark.conformance("ditto.http.if-match")
def test_if_match_is_412_for_another_revision(alice: httpx.Client, thing: str) -> None:
    assert error(alice.put(thing, json={}, headers={"if-match": '"rev:1"'})) == (412, "things:precondition.failed")


@pytest.mark.conformance("ditto.http.if-none-match")
def test_if_none_match_is_304_for_the_same_revision(alice: httpx.Client, thing: str) -> None:
    assert alice.get(thing, headers={"if-none-match": '"rev:3"'}).status_code == 304


@pytest.mark.conformance("ditto.http.too-large")
def test_a_thing_that_is_too_large_is_413(alice: httpx.Client, thing: str) -> None:
    assert error(alice.put(f"{thing}/attributes/x", json="x" * 110_000)) == (413, "things:thing.toolarge")


@pytest.mark.conformance("ditto.http.401")
def test_without_credentials_it_is_401_with_a_challenge(site: Site) -> None:
    answer = site.client().get("/things/a:b")
    assert error(answer) == (401, "gateway:authentication.failed")
    assert "www-authenticate" in answer.headers


@pytest.mark.conformance("ditto.http.outsider")
def test_outsiders_are_told_that_there_is_nothing(site: Site, thing: str) -> None:
    assert error(site.of("bob").get(thing)) == (404, "things:thing.notfound")


@pytest.mark.conformance("ditto.http.policies")
def test_a_policy_is_read_and_changed_below_policies(alice: httpx.Client, thing: str) -> None:
    address = thing.replace("/things/", "/policies/")
    assert list(alice.get(address).json()["entries"]) == ["DEFAULT"]
    entry = {"subjects": {"nginx:bob": {"type": "t"}}, "resources": {"thing:/": {"grant": ["READ"], "revoke": []}}}
    assert alice.put(f"{address}/entries/BOB", json=entry).status_code == 201


@pytest.mark.conformance("ditto.http.connections")
def test_there_are_no_connections(alice: httpx.Client) -> None:
    assert error(alice.get("/connections/c")) == (404, "connectivity:connection.notfound")


@pytest.mark.parametrize("place", [row("http.at-historical.header", "headers"), row("http.at-historical", "params")])
def test_a_thing_is_read_as_it_was(alice: httpx.Client, thing: str, place: str) -> None:
    answer = alice.get(thing, **{place: {"at-historical-revision": "1"}})  # type: ignore[arg-type]
    assert answer.json()["attributes"]["n"] == 1


@pytest.mark.conformance("ditto.http.at-historical.outside")
def test_a_revision_that_never_was_is_404_at_once(alice: httpx.Client, thing: str) -> None:
    answer = alice.get(thing, params={"at-historical-revision": "785"})
    assert error(answer) == (404, "things:thing.history.notfound")


def streamed(answer: httpx.Response) -> list[Any]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        row("sse.from-historical-revision", {"from-historical-revision": "2"}, [2, 3]),
        row(
            "sse.to-historical-revision", {"from-historical-revision": "1", "to-historical-revision": "2"}, [1, 2]
        ),
        row("sse.filter", {"from-historical-revision": "1", "filter": "eq(attributes/n,2)"}, [2]),
        row("sse.from-historical-timestamp", {"from-historical-timestamp": "2020-01-01T00:00:00Z"}, [1, 2, 3]),
        row(
            "sse.to-historical-timestamp",
            {"from-historical-timestamp": "2020-01-01T00:00:00Z", "to-historical-timestamp": "2020-01-02T00:00:00Z"},
            [],
        ),
    ],
)  # fmt: skip
def test_a_history_is_streamed_as_server_sent_events_and_ends(
    alice: httpx.Client, thing: str, parameters: dict[str, str], expected: list[int]
) -> None:
    answer = alice.get(thing, params=parameters, headers=EVENTS)
    assert [event["_revision"] for event in streamed(answer)] == expected


@pytest.mark.conformance("ditto.sse.fields")
def test_server_sent_events_show_the_fields_that_are_asked_for(alice: httpx.Client, thing: str) -> None:
    parameters = {"from-historical-revision": "-1", "fields": "attributes/n"}
    assert streamed(alice.get(thing, params=parameters, headers=EVENTS)) == [{"attributes": {"n": 3}}]


@pytest.mark.conformance("ditto.sse.bad")
def test_a_range_that_is_none_is_400_before_the_stream(alice: httpx.Client, thing: str) -> None:
    answer = alice.get(thing, params={"from-historical-revision": "soon"}, headers=EVENTS)
    assert error(answer) == (400, "header.invalid")


@pytest.mark.conformance("ditto.item.thing")
def test_an_item_is_a_thing(site: Site, alice: httpx.Client) -> None:
    site.feed('{"item":"row","fields":{"t":"20"}}\n')
    answer = alice.get("/things/SITE.SENSORS:row")
    assert answer.json() == {"thingId": "SITE.SENSORS:row", "attributes": {"t": "20"}}


@pytest.mark.conformance("ditto.item.permission")
def test_an_item_is_a_thing_for_those_who_may_subscribe_to_it(site: Site) -> None:
    site.feed('{"item":"secret","fields":{"t":"1"}}\n{"item":"public-row","fields":{"t":"1"}}\n')
    bob = site.of("bob")
    assert bob.get("/things/SITE.SENSORS:public-row").status_code == 200
    assert error(bob.get("/things/SITE.SENSORS:secret")) == (404, "things:thing.notfound")


@pytest.mark.conformance("ditto.item.read-only")
def test_nobody_writes_an_item(site: Site, alice: httpx.Client) -> None:
    site.feed('{"item":"fixed","fields":{"t":"1"}}\n')
    answer = alice.put("/things/SITE.SENSORS:fixed/attributes/t", json="2")
    assert error(answer) == (403, "things:attribute.notmodifiable")


@pytest.mark.conformance("ditto.item.reserved")
def test_nobody_makes_things_in_the_namespace_of_an_adapter(alice: httpx.Client) -> None:
    assert error(alice.put("/things/SITE.SENSORS:made-up", json={})) == (400, "things:thing.notcreatable")


@pytest.mark.conformance("ditto.item.escaped")
def test_names_that_no_thing_can_have_are_escaped(site: Site, alice: httpx.Client) -> None:
    site.feed('{"item":"a/b=c","fields":{"t":"1"}}\n')
    assert alice.get("/things/SITE.SENSORS:a=2Fb=3Dc").json()["attributes"] == {"t": "1"}


@pytest.mark.conformance("ditto.item.history")
def test_an_item_has_a_history(site: Site, alice: httpx.Client) -> None:
    site.feed('{"item":"past","fields":{"t":"1"}}\n{"item":"past","fields":{"t":"2"}}\n')
    address = "/things/SITE.SENSORS:past"
    assert alice.get(address, params={"at-historical-revision": "1"}).json()["attributes"] == {"t": "1"}
    answer = alice.get(address, params={"from-historical-revision": "1"}, headers=EVENTS)
    assert [event["attributes"] for event in streamed(answer)] == [{"t": "1"}, {"t": "2"}]


@pytest.mark.conformance("ditto.http.whoami")
def test_whoami_says_how_policies_name_the_caller(alice: httpx.Client) -> None:
    assert alice.get("/whoami").json() == {"defaultSubject": "nginx:alice", "subjects": ["nginx:alice"]}


@pytest.mark.conformance("ditto.http.checkPermissions")
def test_permissions_can_be_checked_without_trying(alice: httpx.Client, site: Site, thing: str) -> None:
    id = thing.rpartition("/")[2]

    def check(resource: str, *permissions: str, entity: str = id) -> dict[str, Any]:
        return {"resource": resource, "entityId": entity, "hasPermissions": list(permissions)}

    asked = {
        "all": check("thing:/", "READ", "WRITE"),
        "part": check("thing:/features/lamp", "WRITE"),
        "policy": check("policy:/", "WRITE"),
        "message": check("message:/inbox/messages/ask", "WRITE"),
        "missing": check("thing:/", "READ", entity="no:such"),
    }
    expected = {"all": True, "part": True, "policy": True, "message": True, "missing": False}
    assert alice.post("/checkPermissions", json=asked).json() == expected
    assert alice.post("/checkPermissions", json=asked).status_code == 200
    assert not any(site.of("bob").post("/checkPermissions", json=asked).json().values())
    wrong: tuple[Any, ...] = (
        {},
        [],
        {"a": 1},
        {"a": check("thing", "READ")},
        {"a": check("other:/", "READ")},
        {"a": check("thing:/", "FLY")},
        {"a": check("thing:/")},
        {"a": check("thing:/", "READ", entity="no id")},
        {"a": {"resource": "thing:/", "entityId": id}},
        {str(number): check("thing:/", "READ") for number in range(101)},
    )
    for bad in wrong:
        assert alice.post("/checkPermissions", json=bad).status_code == 400, bad


@pytest.mark.conformance("ditto.http.copyPolicyFrom")
def test_a_new_thing_can_have_a_copy_of_a_policy(alice: httpx.Client, site: Site, thing: str) -> None:
    id = thing.rpartition("/")[2]
    made = alice.put(f"/things/{id}-copy", json={"_copyPolicyFrom": f"{{{{ ref:things/{id}/policyId }}}}"})
    assert (made.status_code, made.json()["policyId"]) == (201, f"{id}-copy")
    copy, original = alice.get(f"/policies/{id}-copy").json(), alice.get(f"/policies/{id}").json()
    assert copy["entries"] == original["entries"]
    assert error(site.of("bob").put("/things/ns:steal", json={"_copyPolicyFrom": id})) == (
        400,
        "things:thing.notcreatable",
    )
