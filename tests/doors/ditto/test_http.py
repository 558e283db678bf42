"""Things and policies over HTTP, against a whole server."""

from __future__ import annotations

import base64
import itertools
import json
import socket
import threading
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from penstock.doors.ditto.saved_state import load_state
from penstock.journal.journal import Journal, Policy
from penstock.journal.journal import JournalSettings as JournalSettings
from penstock.journal.record import Columns
from penstock.journal.retention import Retention
from penstock.journal.writer import BatchGroup
from penstock.services.errors import StartError
from tests.adapters.access.world import password_of
from tests.doors.ditto.site import EVENTS, MERGE, Site, entry, policy

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bob(site: Site) -> httpx.Client:
    return site.of("bob")


@pytest.fixture
def thing() -> str:
    """A path of a thing that nobody else has."""
    return f"/things/ns:thing{next(numbers)}"


def id_of(path: str) -> str:
    return path.rpartition("/")[2]


def refused(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()["error"]


# -- things ------------------------------------------------------------------------------------------------------------


def test_a_thing_is_put_read_merged_and_deleted(alice: httpx.Client, thing: str) -> None:
    made = alice.put(thing, json={"attributes": {"a": 1}})
    assert made.status_code == 201
    assert made.json() == {"thingId": id_of(thing), "policyId": id_of(thing), "attributes": {"a": 1}}
    assert made.headers["location"] == f"/api/2{thing}"
    assert made.headers["etag"] == '"rev:1"'

    assert alice.put(thing, json={"attributes": {"a": 2}}).status_code == 204
    merged = alice.patch(thing, content=b'{"attributes":{"a":null,"b":3}}', headers=MERGE)
    assert (merged.status_code, merged.content, merged.headers["etag"]) == (204, b"", '"rev:3"')

    found = alice.get(thing)
    assert (found.status_code, found.json()["attributes"]) == (200, {"b": 3})

    assert alice.delete(thing).status_code == 204
    assert refused(alice.get(thing)) == (404, "things:thing.notfound")


def test_a_merge_makes_a_thing_that_is_missing(alice: httpx.Client, thing: str) -> None:
    assert alice.patch(thing, content=b'{"attributes":{"a":1}}', headers=MERGE).status_code == 201


def test_revisions_go_on_after_a_deletion(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={})
    alice.delete(thing)
    again = alice.put(thing, json={"policyId": id_of(thing)})
    assert (again.status_code, again.headers["etag"]) == (201, '"rev:3"')


def test_a_post_makes_up_the_id(alice: httpx.Client) -> None:
    made = alice.post("/things", json={"attributes": {"a": 1}})
    assert made.status_code == 201
    id = made.json()["thingId"]
    assert id.startswith("org.eclipse.ditto:")
    assert made.headers["location"] == f"/api/2/things/{id}"
    assert alice.get(f"/things/{id}").json() == made.json()


def test_a_post_takes_the_namespace_that_is_asked_for_and_no_id(alice: httpx.Client) -> None:
    assert alice.post("/things?namespace=com.example").json()["thingId"].startswith("com.example:")
    assert refused(alice.post("/things", json={"thingId": "a:b"})) == (400, "things:id.notsettable")
    assert refused(alice.post("/things?namespace=9")) == (400, "things:id.invalid")


def test_the_id_in_the_body_is_the_one_in_the_address(alice: httpx.Client, thing: str) -> None:
    answer = alice.put(thing, json={"thingId": "ns:other"})
    assert refused(answer) == (400, "things:id.notsettable")
    assert "request URL" in answer.json()["message"]


PARTS = [
    ("/attributes", {"x": 1}),
    ("/attributes/a/b", [1, {"c": None}]),
    ("/definition", "com.example:model:1.0"),
    ("/features", {"f": {}}),
    ("/features/f", {"properties": {"p": 1}}),
    ("/features/f/definition", ["com.example:model:1.0"]),
    ("/features/f/properties", {"p": 1}),
    ("/features/f/properties/p/q", "text"),
    ("/features/f/desiredProperties", {"p": 1}),
    ("/features/f/desiredProperties/p", False),
]


@pytest.mark.parametrize(("path", "value"), PARTS)
def test_a_part_is_made_changed_read_and_deleted(alice: httpx.Client, thing: str, path: str, value: object) -> None:
    in_feature = path.startswith("/features/f/")
    alice.put(thing, json={"features": {"f": {}}} if in_feature else {})
    made = alice.put(thing + path, json=value)
    assert (made.status_code, made.json()) == (201, value)
    assert made.headers["location"] == f"/api/2{thing}{path}"
    changed = alice.put(thing + path, json=value)
    assert (changed.status_code, changed.content) == (204, b"")
    found = alice.get(thing + path)
    assert (found.status_code, found.json()) == (200, value)
    assert found.headers["etag"] == changed.headers["etag"]
    assert alice.delete(thing + path).status_code == 204
    assert alice.get(thing + path).status_code == 404


def test_colons_and_other_characters_may_be_escaped(alice: httpx.Client) -> None:
    path = "/things/" + quote("ns:a thing: 100% €", safe="")
    assert alice.put(path, json={}).json()["thingId"] == "ns:a thing: 100% €"
    assert alice.get(path.replace("%3A", ":")).status_code == 200


def test_a_slash_in_a_key_is_refused_and_none_is_lost_on_the_way(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={})
    assert refused(alice.put(thing + "/attributes/a%2Fb", json=1)) == (400, "json.key.invalid")
    assert refused(alice.get(thing + "/attributes/a%2Fb")) == (404, "things:attribute.notfound")
    assert alice.get(thing).json() == {"thingId": id_of(thing), "policyId": id_of(thing)}


def test_fields_choose_what_is_shown(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={"attributes": {"a": 1, "b": {"c": 2, "d": 3}}})
    assert alice.get(thing, params={"fields": "attributes(a,b/c)"}).json() == {"attributes": {"a": 1, "b": {"c": 2}}}
    shown = alice.get(thing, params={"fields": "thingId,_revision,_policy,_namespace"}).json()
    assert (shown["_revision"], shown["_policy"]["policyId"], shown["_namespace"]) == (1, id_of(thing), "ns")
    assert alice.get(thing + "/attributes", params={"fields": "b(d)"}).json() == {"b": {"d": 3}}
    assert refused(alice.get(thing, params={"fields": "a(b"})) == (400, "json.fieldselector.invalid")


def test_several_things_are_read_at_once_without_those_that_are_missing(alice: httpx.Client, thing: str) -> None:
    other = f"ns:thing{next(numbers)}"
    alice.put(thing, json={"attributes": {"a": 1}})
    alice.put(f"/things/{other}", json={})
    answer = alice.get("/things", params={"ids": f"{other},ns:missing,{id_of(thing)}", "fields": "thingId"})
    assert answer.json() == [{"thingId": other}, {"thingId": id_of(thing)}]
    assert alice.get("/things", params={"ids": ""}).json() == []
    assert refused(alice.get("/things")) == (400, "json.field.missing")
    assert refused(alice.get("/things", params={"ids": "no id"})) == (400, "things:id.invalid")


# -- conditions --------------------------------------------------------------------------------------------------------


def test_tags_guard_changes_and_spare_reading(alice: httpx.Client, thing: str) -> None:
    tag = alice.put(thing, json={}).headers["etag"]
    same = alice.get(thing, headers={"if-none-match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert alice.put(thing, json={"attributes": {}}, headers={"if-match": tag}).status_code == 204
    assert refused(alice.put(thing, json={}, headers={"if-match": tag})) == (412, "things:precondition.failed")
    assert refused(alice.put(thing, json={}, headers={"if-none-match": "*"})) == (412, "things:precondition.failed")
    assert refused(alice.get(thing, headers={"if-match": "no tag"})) == (400, "header.invalid")


def test_what_is_equal_can_be_skipped(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={"attributes": {"a": 1}})
    same = alice.put(thing + "/attributes/a", json=1, headers={"if-equal": "skip"})
    assert refused(same) == (412, "things:precondition.failed")
    assert alice.put(thing + "/attributes/a", json=2, headers={"if-equal": "skip"}).status_code == 204
    assert alice.get(thing).headers["etag"] == '"rev:2"'


def test_a_condition_is_a_header_or_a_parameter(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={"attributes": {"a": 1}})
    path = thing + "/attributes/a"
    no = "eq(attributes/a,7)"
    assert refused(alice.put(path, json=2, headers={"condition": no})) == (412, "things:condition.failed")
    assert refused(alice.put(path, json=2, params={"condition": no})) == (412, "things:condition.failed")
    assert alice.put(path, json=2, params={"condition": "eq(attributes/a,1)"}).status_code == 204


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"text"', b"\xff", b"nul", b"{" * 10_000, b"[" * 200 + b"]" * 200]
)
def test_a_body_that_is_no_thing_is_refused(alice: httpx.Client, thing: str, body: bytes) -> None:
    answer = alice.put(thing, content=body, headers={"content-type": "application/json"})
    assert refused(answer) == (400, "json.invalid")


def test_other_types_of_body_are_refused(alice: httpx.Client, thing: str) -> None:
    form = alice.put(thing, content=b"{}", headers={"content-type": "application/x-www-form-urlencoded"})
    assert refused(form) == (415, "mediatype.unsupported")
    assert refused(alice.patch(thing, json={})) == (415, "mediatype.unsupported")
    assert "merge-patch" in alice.patch(thing, json={}).json()["description"]


def test_what_is_too_large_is_refused(alice: httpx.Client, thing: str) -> None:
    large = {"attributes": {"text": "x" * 102_400}}
    assert refused(alice.put(thing, json=large)) == (413, "things:thing.toolarge")
    fits = {"attributes": {"text": "x" * 100_000}}
    assert alice.put(thing, json=fits).status_code == 201
    assert refused(alice.put(thing + "/attributes/more", json="x" * 5_000)) == (413, "things:thing.toolarge")


def test_an_endless_body_is_refused_before_it_has_come(site: Site, thing: str) -> None:
    with socket.create_connection(("127.0.0.1", site.server.api_port), 20) as link:
        shown = base64.b64encode(f"alice:{password_of('alice')}".encode()).decode()
        head = (
            f"PUT /api/2{thing} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            f"authorization: Basic {shown}\r\n"
            "content-length: 1000000000000\r\n\r\n"
        )
        link.sendall(head.encode())
        assert link.recv(65_536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/things/no-colon", "things:id.invalid"),
        ("/things/9:a", "things:id.invalid"),
        ("/things/ns:", "things:id.invalid"),
        ("/things/ns:" + "x" * 300, "things:id.invalid"),
        ("/things/ns:%ff", "protocoladapter:unknown.path"),
        ("/things/ns:a/unknown", "protocoladapter:unknown.path"),
        ("/things/ns:a/attributes//b", "json.pointer.invalid"),
        ("/policies/no-colon", "policies:id.invalid"),
        ("/policies/ns:a/unknown", "protocoladapter:unknown.path"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(alice: httpx.Client, path: str, code: str) -> None:
    assert refused(alice.get(path)) == (400, code)


def test_other_methods_are_not_allowed(alice: httpx.Client, thing: str) -> None:
    assert alice.request("POST", thing, json={}).status_code == 405
    assert alice.patch("/policies/ns:a", content=b"{}", headers=MERGE).status_code == 405


UNFIT = ("a\r\nx-evil: 1", "a\r\n\r\n<p>", "\0", "\x7f", "日本", "\u2028")


def test_a_correlation_id_that_no_header_can_carry_is_refused_and_the_connection_goes_on(
    alice: httpx.Client, thing: str
) -> None:
    assert alice.put(thing, json={}).status_code == 201
    for bad in UNFIT:
        for path in (thing, "/things/ns:missing", "/things", "/policies/ns:missing", "/connections/x"):
            answer = alice.get(path, params={"correlation-id": bad, "ids": "ns:missing"})
            assert (answer.status_code, answer.json()["error"]) == (400, "header.invalid"), (path, bad)
            assert "x-evil" not in answer.headers
        answer = alice.put(thing, json={}, params={"correlation-id": bad})
        assert (answer.status_code, answer.json()["error"]) == (400, "header.invalid")
        parameters = {"correlation-id": bad, "from-historical-revision": "1"}
        answer = alice.get(thing, params=parameters, headers=EVENTS)
        assert (answer.status_code, answer.json()["error"]) == (400, "header.invalid")
        assert "x-evil" not in answer.headers
    assert alice.get(thing).status_code == 200


def test_the_correlation_id_comes_back(alice: httpx.Client, thing: str) -> None:
    named = {"correlation-id": "mine"}
    assert alice.put(thing, json={}, headers=named).headers["correlation-id"] == "mine"
    assert alice.get("/things/ns:missing", headers=named).headers["correlation-id"] == "mine"
    assert alice.get(thing).headers["correlation-id"]


# -- policies ----------------------------------------------------------------------------------------------------------


def test_a_policy_is_put_read_changed_and_deleted(alice: httpx.Client) -> None:
    path = f"/policies/ns:policy{next(numbers)}"
    made = alice.put(path, json=policy())
    assert (made.status_code, made.headers["location"]) == (201, f"/api/2{path}")
    assert alice.get(path).json()["policyId"] == id_of(path)
    reader = entry("bob", thing=["READ"])
    assert alice.put(path + "/entries/READER", json=reader).status_code == 201
    assert alice.get(path + "/entries/READER/subjects/nginx:bob").json() == {"type": "test"}
    resource = path + "/entries/READER/resources/thing:/attributes/secret"
    assert alice.put(resource, json={"grant": [], "revoke": ["READ"]}).status_code == 201
    assert alice.get(resource).json() == {"grant": [], "revoke": ["READ"]}
    assert alice.get(resource.replace("thing:/attributes/", "thing:%2Fattributes%2F")).status_code == 200
    assert alice.delete(path + "/entries/READER").status_code == 204
    assert refused(alice.delete(path + "/entries/OWNER")) == (403, "policies:entry.modificationinvalid")
    assert alice.delete(path).status_code == 204
    assert refused(alice.get(path)) == (404, "policies:policy.notfound")


def test_a_policy_may_be_posted(alice: httpx.Client) -> None:
    made = alice.post("/policies", json=policy())
    assert made.status_code == 201
    assert alice.get(f"/policies/{made.json()['policyId']}").status_code == 200
    assert refused(alice.post("/policies", json={"policyId": "a:b"})) == (400, "policies:id.notsettable")


def test_outsiders_cannot_tell_what_is_there(alice: httpx.Client, bob: httpx.Client, thing: str) -> None:
    alice.put(thing, json={})
    missing = "/things/ns:missing"
    for method, body in (("GET", None), ("DELETE", None)):
        there, not_there = bob.request(method, thing, json=body), bob.request(method, missing, json=body)
        assert there.status_code == not_there.status_code == 404
        assert there.json() == json.loads(not_there.text.replace("ns:missing", id_of(thing)))
    assert refused(bob.get(f"/policies/{id_of(thing)}")) == (404, "policies:policy.notfound")
    assert refused(bob.put(thing + "/attributes/a", json=1)) == (404, "things:thing.notfound")


def test_readers_see_what_their_policy_grants(alice: httpx.Client, bob: httpx.Client, thing: str) -> None:
    reader = entry("bob", thing=["READ"])
    reader["resources"]["thing:/attributes/secret"] = {"grant": [], "revoke": ["READ"]}
    alice.put(thing, json={"_policy": policy(READER=reader), "attributes": {"open": 1, "secret": 2}})
    assert bob.get(thing).json()["attributes"] == {"open": 1}
    assert refused(bob.get(thing + "/attributes/secret")) == (404, "things:attribute.notfound")
    assert refused(bob.put(thing + "/attributes/open", json=2)) == (403, "things:attribute.notmodifiable")
    assert refused(bob.delete(thing)) == (403, "things:thing.notdeletable")
    assert refused(bob.get(thing, params={"at-historical-revision": 1})) == (404, "things:thing.notfound")


# -- connections -------------------------------------------------------------------------------------------------------


def test_there_are_no_connections(alice: httpx.Client) -> None:
    for answer in (alice.get("/connections/c"), alice.put("/connections/c", json={}), alice.get("/connections")):
        assert refused(answer) == (404, "connectivity:connection.notfound")
    for moment in ({"at-historical-revision": "1"}, {"at-historical-timestamp": "2020-01-01T00:00:00Z"}):
        past = alice.get("/connections/c", params=moment)
        assert refused(past) == (404, "connectivity:connection.history.notfound")
        assert f"'{next(iter(moment.values()))}'" in past.json()["message"]


# -- the past ----------------------------------------------------------------------------------------------------------


def test_a_thing_is_shown_as_it_was_at_a_revision(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={"attributes": {"a": 1}})
    alice.put(thing + "/attributes/a", json=2)
    alice.put(thing + "/attributes/a", json=3)
    for revision in (1, 2, 3):
        by_parameter = alice.get(thing, params={"at-historical-revision": revision})
        assert by_parameter.json()["attributes"] == {"a": revision}
        assert by_parameter.headers["etag"] == f'"rev:{revision}"'
        by_header = alice.get(thing + "/attributes/a", headers={"at-historical-revision": str(revision)})
        assert by_header.json() == revision
    chosen = alice.get(thing, params={"at-historical-revision": 2, "fields": "attributes/a,_revision"})
    assert chosen.json() == {"attributes": {"a": 2}, "_revision": 2}


@pytest.mark.parametrize("revision", ["0", "-1", "4", "99999999999999999999"])
def test_a_revision_that_never_was_is_not_found_at_once(alice: httpx.Client, thing: str, revision: str) -> None:
    alice.put(thing, json={})
    past = alice.get(thing, params={"at-historical-revision": revision})
    assert refused(past) == (404, "things:thing.history.notfound")


def test_a_thing_is_shown_as_it_was_before_an_instant(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={"attributes": {"a": 1}})
    alice.put(thing + "/attributes/a", json=2)
    second = alice.get(thing, params={"fields": "_modified"}).json()["_modified"]
    past = alice.get(thing, headers={"at-historical-timestamp": second})
    assert past.json()["attributes"] == {"a": 1}
    first = alice.get(thing, params={"fields": "_created"}).json()["_created"]
    assert refused(alice.get(thing, params={"at-historical-timestamp": first})) == (
        404,
        "things:thing.history.notfound",
    )
    future = alice.get(thing, params={"at-historical-timestamp": "2999-01-01T00:00:00Z"})
    assert refused(future) == (404, "things:thing.history.notfound")


@pytest.mark.parametrize(
    "name_and_value", [("at-historical-revision", "one"), ("at-historical-timestamp", "yesterday")]
)
def test_a_moment_that_makes_no_sense_is_refused(
    alice: httpx.Client, thing: str, name_and_value: tuple[str, str]
) -> None:
    alice.put(thing, json={})
    assert refused(alice.get(thing, params=dict([name_and_value]))) == (400, "header.invalid")


def test_a_policy_has_a_past_too(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={})
    path = f"/policies/{id_of(thing)}"
    alice.put(path + "/entries/READER", json=entry("bob", thing=["READ"]))
    assert list(alice.get(path, params={"at-historical-revision": 1}).json()["entries"]) == ["DEFAULT"]
    assert refused(alice.get(path, params={"at-historical-revision": 3})) == (404, "policies:policy.history.notfound")


# -- items as things ---------------------------------------------------------------------------------------------------


def test_an_item_is_a_thing(site: Site, alice: httpx.Client) -> None:
    site.feed('{"item":"meter","fields":{"power":"5","unit":"W"}}\n{"item":"meter","fields":{"power":"6"}}\n')
    path = "/things/SITE.SENSORS:meter"
    found = alice.get(path)
    assert found.json() == {"thingId": "SITE.SENSORS:meter", "attributes": {"power": "6", "unit": "W"}}
    assert found.headers["etag"] == '"rev:2"'
    assert alice.get(path + "/attributes/power").json() == "6"
    assert alice.get(path, params={"at-historical-revision": 1}).json()["attributes"]["power"] == "5"
    site.feed('{"item":"meter","fields":{"unit":null}}\n')
    assert alice.get(path).json()["attributes"] == {"power": "6"}
    assert alice.get("/things", params={"ids": "SITE.SENSORS:meter,SITE.SENSORS:none"}).json() == [
        {"thingId": "SITE.SENSORS:meter", "attributes": {"power": "6"}}
    ]


def test_an_item_with_rows_is_a_thing_with_features(site: Site, alice: httpx.Client) -> None:
    site.feed(
        '{"item":"table1","fields":{"key":"k","command":"ADD","v":"1"}}\n'
        '{"item":"table1","fields":{"key":"l","command":"ADD","v":"2"}}\n'
        '{"item":"table1","fields":{"key":"k","command":"DELETE"}}\n'
    )
    assert alice.get("/things/SITE.SENSORS:table1/features").json() == {"l": {"properties": {"v": "2"}}}


def test_an_item_is_read_by_those_who_may_subscribe_to_it(site: Site, alice: httpx.Client, bob: httpx.Client) -> None:
    site.feed('{"item":"public1","fields":{"x":"1"}}\n{"item":"private1","fields":{"x":"1"}}\n')
    assert bob.get("/things/SITE.SENSORS:public1").status_code == 200
    assert refused(bob.get("/things/SITE.SENSORS:private1")) == (404, "things:thing.notfound")
    assert alice.get("/things/SITE.SENSORS:private1").status_code == 200
    assert refused(site.of("carol").get("/things/SITE.SENSORS:public1")) == (404, "things:thing.notfound")


def test_nobody_writes_an_item(site: Site, alice: httpx.Client, bob: httpx.Client) -> None:
    site.feed('{"item":"private2","fields":{"x":"1"}}\n')
    path = "/things/SITE.SENSORS:private2"
    assert refused(alice.put(path, json={})) == (403, "things:thing.notmodifiable")
    assert refused(alice.put(path + "/attributes/x", json="2")) == (403, "things:attribute.notmodifiable")
    assert refused(alice.delete(path)) == (403, "things:thing.notdeletable")
    hidden, missing = bob.put(path, json={}), bob.put("/things/SITE.SENSORS:missing2", json={})
    assert refused(hidden) == refused(missing) == (400, "things:thing.notcreatable")
    assert refused(bob.delete(path)) == (404, "things:thing.notfound")


def test_names_of_items_that_no_thing_could_have_are_escaped(site: Site, alice: httpx.Client) -> None:
    site.feed('{"item":"a/b=c","fields":{"x":"1"}}\n')
    assert alice.get("/things/SITE.SENSORS:a=2Fb=3Dc").json()["thingId"] == "SITE.SENSORS:a=2Fb=3Dc"


def test_things_of_the_own_set_are_not_there_twice(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={})
    assert refused(alice.get(f"/things/DITTO.THINGS:{id_of(thing)}")) == (404, "things:thing.notfound")
    assert refused(alice.put("/things/DITTO.THINGS:x", json={})) == (400, "things:thing.notcreatable")


# -- the disk ----------------------------------------------------------------------------------------------------------


def test_things_are_there_again_after_a_restart(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        client = site.of("alice")
        client.put("/things/ns:a", json={"attributes": {"n": 0}})
        for number in range(1, 6):
            assert client.put("/things/ns:a/attributes/n", json=number).status_code == 204
        client.put("/things/ns:b", json={})
        client.delete("/things/ns:b")
    with Site(tmp_path) as site:
        client = site.of("alice")
        assert client.get("/things/ns:a", params={"fields": "attributes,_revision"}).json() == {
            "attributes": {"n": 5},
            "_revision": 6,
        }
        assert client.get("/things/ns:b").status_code == 404
        assert client.put("/things/ns:a/attributes/n", json=6).status_code == 204
        assert client.get("/things/ns:a", params={"at-historical-revision": 3}).json()["attributes"] == {"n": 2}
        assert (tmp_path / "data" / "journal" / "twins.state").exists()


def test_a_command_that_takes_longer_than_its_timeout_is_408_and_done_all_the_same(
    site: Site, alice: httpx.Client, thing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.put(thing, json={})
    assert site.server.gatherer is not None
    writer = site.server.gatherer.journal._writer
    release, write = threading.Event(), writer.append

    def slow(group: BatchGroup, *, sync: bool) -> None:
        assert release.wait(30)
        write(group, sync=sync)

    monkeypatch.setattr(writer, "append", slow)
    try:
        answer = alice.put(f"{thing}/attributes/a", json=1, params={"timeout": "100ms"})
        assert (answer.status_code, answer.json()["error"]) == (408, "command.timeout")
    finally:
        release.set()
    assert alice.get(f"{thing}/attributes/a").json() == 1


def test_openapi_tells_of_it_all(site: Site) -> None:
    paths = httpx.get(f"http://127.0.0.1:{site.server.api_port}/openapi.json").json()["paths"]
    assert set(paths["/api/2/things/{thing_id}"]) == {"get", "put", "patch", "delete"}
    assert set(paths["/api/2/policies/{policy_id}"]) == {"get", "put", "delete"}


def test_a_websocket_is_at_the_same_port(site: Site, alice: httpx.Client, thing: str) -> None:
    shown = base64.b64encode(f"alice:{password_of('alice')}".encode()).decode()
    url = f"ws://127.0.0.1:{site.server.api_port}/ws/2"
    with connect(url, additional_headers={"authorization": f"Basic {shown}"}, proxy=None) as socket:
        socket.send("START-SEND-EVENTS?namespaces=ns,SITE.SENSORS")
        assert socket.recv(10) == "START-SEND-EVENTS:ACK"
        alice.put(thing, json={})
        event = json.loads(socket.recv(10))
        assert (event["topic"], event["revision"]) == (f"ns/{id_of(thing)[3:]}/things/twin/events/created", 1)
        site.feed('{"item":"socket","fields":{"x":"1"}}\n')
        event = json.loads(socket.recv(10))
        assert event["topic"] == "SITE.SENSORS/socket/things/twin/events/created"
        assert event["value"] == {"thingId": "SITE.SENSORS:socket", "attributes": {"x": "1"}}
    with pytest.raises(InvalidStatus) as refused:
        connect(url, proxy=None)
    assert refused.value.response.status_code == 401


def test_a_state_older_than_the_journal_stops_the_start(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "data" / "journal", JournalSettings(segment_bytes=2_000))
    for number in range(200):
        columns = Columns()
        columns.add("DITTO/THINGS/ns:a", number, "modified", "/attributes/n", str(number))
        receipt = journal.append(columns, Policy.ACK)
        assert receipt.done is not None
        receipt.done.result()
    assert journal.retain(Retention(max_bytes=1), receipt.first)
    journal.close()
    with pytest.raises(StartError, match="the saved state of things is too old"):
        Site(tmp_path).__enter__()


def test_the_state_is_saved_before_files_of_the_journal_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.services.journal.RETENTION_PAUSE", 0.01)
    dropped = threading.Event()
    seen: list[bool] = []

    def drop(journal: Journal, lake: int, config: object) -> list[int]:
        seen.append("ns:a" in str(list(load_state(journal.disk).twins)))
        if seen[-1]:
            dropped.set()
        return []

    monkeypatch.setattr("penstock.services.journal.past_retention", lambda *given: [1])
    monkeypatch.setattr("penstock.services.journal.drop_expired", drop)
    with Site(tmp_path) as site:
        site.of("alice").put("/things/ns:a", json={})
        assert dropped.wait(20)


def test_an_acknowledgement_without_content_has_no_body(alice: httpx.Client, thing: str) -> None:
    alice.put(thing, json={})
    answer = alice.put(f"{thing}/attributes/a", json=1, params={"requested-acks": "search-persisted"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-type" not in answer.headers
    # The connection is still in order.
    assert alice.get(f"{thing}/attributes/a").json() == 1


@pytest.mark.parametrize("path", ["/things/ns:a/attributes/a%0Ab", "/policies/ns:a/entries/a%0Ab", "/a%0Ab"])
def test_a_line_break_in_a_path_is_answered_as_all_other_mistakes(alice: httpx.Client, path: str) -> None:
    answer = alice.put(path, json={})
    assert refused(answer)[0] in (400, 404)
