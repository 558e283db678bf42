"""Metadata of things, and merge patches with regular expressions and with conditions for their parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doors.ditto.site import EVENTS, MERGE, Site, entry, policy

LAMP = {"attributes": {"maker": "acme"}, "features": {"lamp": {"properties": {"color": {"r": 1, "g": 2}, "on": True}}}}
UNIT = "/features/lamp/properties/color/unit"


def headers(*entries: tuple[str, Any]) -> dict[str, str]:
    return {"put-metadata": json.dumps([{"key": key, "value": value} for key, value in entries])}


def metadata_of(client: httpx.Client, thing: str) -> Any:
    return client.get(thing, params={"fields": "_metadata"}).json().get("_metadata")


@pytest.mark.conformance("ditto.metadata.put")
def test_metadata_is_put_with_a_change_and_returned_to_those_who_ask(alice: httpx.Client) -> None:
    thing = "/things/meta:put"
    assert alice.put(thing, json=LAMP, headers=headers((UNIT, "RGB"), ("*/by", "me"))).status_code == 201
    assert "_metadata" not in alice.get(thing).json()
    assert alice.put("/things/meta:none", json=LAMP).status_code == 201
    assert alice.get("/things/meta:none", params={"fields": "_metadata"}).json() == {}
    color = {"unit": "RGB", "r": {"by": "me"}, "g": {"by": "me"}}
    expected = {
        "attributes": {"maker": {"by": "me"}},
        "features": {"lamp": {"properties": {"color": color, "on": {"by": "me"}}}},
    }
    assert metadata_of(alice, thing) == expected
    changed = alice.put(f"{thing}/features/lamp/properties/on", json=False, headers=headers(("note", "by hand")))
    assert changed.status_code == 204
    expected["features"]["lamp"]["properties"]["on"] = {"by": "me", "note": "by hand"}  # type: ignore[index]
    assert metadata_of(alice, thing) == expected
    past = alice.get(thing, params={"fields": "_metadata", "at-historical-revision": "1"}).json()
    assert past["_metadata"]["features"]["lamp"]["properties"]["on"] == {"by": "me"}


@pytest.mark.conformance("ditto.metadata.get")
def test_metadata_is_returned_by_path(site: Site, alice: httpx.Client) -> None:
    hidden = entry("bob", thing=["READ"])
    hidden["resources"]["thing:/attributes"] = {"grant": [], "revoke": ["READ"]}
    thing = "/things/meta:get"
    given = headers((UNIT, "RGB"), ("*/by", "me"), ("attributes/*/kind", "text"))
    assert alice.put(thing, json={**LAMP, "_policy": policy(BOB=hidden)}, headers=given).status_code == 201

    def asked(paths: str, place: str = thing, client: httpx.Client = alice) -> Any:
        return json.loads(client.get(place, headers={"get-metadata": paths}).headers["ditto-metadata"])

    assert asked(UNIT) == {"features": {"lamp": {"properties": {"color": {"unit": "RGB"}}}}}
    assert asked("attributes/*/kind, nothing/here") == {"attributes": {"maker": {"kind": "text"}}}
    assert asked("*/unit") == {"features": {"lamp": {"properties": {"color": {"unit": "RGB"}}}}}
    assert asked("*", f"{thing}/attributes") == {"maker": {"by": "me", "kind": "text"}}
    assert "attributes" not in asked("*", client=site.of("bob"))


@pytest.mark.conformance("ditto.metadata.delete")
def test_metadata_is_deleted_by_path_and_with_its_part(tmp_path: Path) -> None:
    thing = "/things/meta:delete"
    with Site(tmp_path) as site:
        alice = site.of("alice")
        assert alice.put(thing, json=LAMP, headers=headers((UNIT, "RGB"), ("*/by", "me"))).status_code == 201
        paths = "features/lamp/properties/*/by, attributes/maker"
        assert alice.patch(thing, content="{}", headers={**MERGE, "delete-metadata": paths}).status_code == 204
        color = {"unit": "RGB", "r": {"by": "me"}, "g": {"by": "me"}}
        assert metadata_of(alice, thing)["features"]["lamp"]["properties"] == {"color": color, "on": {}}
        patch = json.dumps({"features": {"lamp": {"properties": {"color": {"r": None}}}}})
        assert alice.patch(thing, content=patch, headers=MERGE).status_code == 204
        assert alice.delete(f"{thing}/features/lamp/properties/on").status_code == 204
        left = {"color": {"unit": "RGB", "g": {"by": "me"}}}
        assert metadata_of(alice, thing)["features"]["lamp"]["properties"] == left
    # Once from the saved state; the records themselves were read for the past states above.
    with Site(tmp_path) as site:
        alice = site.of("alice")
        assert metadata_of(alice, thing)["features"]["lamp"]["properties"] == left
        assert alice.delete(f"{thing}/features").status_code == 204
        assert "features" not in metadata_of(alice, thing)


WRONG: list[tuple[str, dict[str, str], str]] = [
    ("PUT", {"put-metadata": "no"}, "header.invalid"),
    ("PUT", {"put-metadata": "{}"}, "json.invalid"),
    ("PUT", {"put-metadata": '[{"key":"a"}]'}, "json.field.missing"),
    ("PUT", {"put-metadata": '[{"key":"a/*","value":1}]'}, "header.invalid"),
    ("PUT", {"put-metadata": "[]", "delete-metadata": "a"}, "header.notsupported"),
    ("PUT", {"get-metadata": "a"}, "header.notsupported"),
    ("PUT", {"delete-metadata": ","}, "header.invalid"),
    ("GET", {"put-metadata": "[]"}, "header.notsupported"),
    ("DELETE", {"delete-metadata": "a"}, "header.notsupported"),
    ("GET", {"get-metadata": "a//b"}, "json.pointer.invalid"),
    ("PUT", {"merge-thing-patch-conditions": "{}"}, "header.notsupported"),
]


@pytest.mark.conformance("ditto.metadata.bad")
def test_headers_that_make_no_sense_are_refused(alice: httpx.Client) -> None:
    alice.put("/things/meta:bad", json=LAMP)
    for method, given, code in WRONG:
        content = b"{}" if method == "PUT" else None
        answer = alice.request(method, "/things/meta:bad", headers=given, content=content)
        assert (answer.status_code, answer.json()["error"]) == (400, code), given


# -- merge patches -----------------------------------------------------------------------------------------------------


def merge(client: httpx.Client, thing: str, patch: Any, **more: str) -> tuple[int, str | None]:
    answer = client.patch(thing, content=json.dumps(patch), headers={**MERGE, **more})
    return answer.status_code, answer.json()["error"] if answer.status_code >= 400 else None


@pytest.mark.conformance("ditto.merge.regex")
def test_a_patch_deletes_by_a_regular_expression(site: Site, alice: httpx.Client) -> None:
    thing = "/things/merge:regex"
    writer = entry("bob", thing=["READ", "WRITE"])
    writer["resources"]["thing:/attributes/2022-02"] = {"grant": [], "revoke": ["WRITE"]}
    months = {"2022-01": 1, "2022-02": 2, "2023-01": 3, "other": {"a1": 1, "b1": 2}}
    assert alice.put(thing, json={"attributes": months, "_policy": policy(BOB=writer)}).status_code == 201
    pattern = {"attributes": {"{{ ~2022-.*~ }}": None, "2023-02": 4}}
    assert merge(site.of("bob"), thing, pattern)[0] == 403
    deep = {"attributes": {"other": {"{{ /a\\d/ }}": None}, "{{ ~x|y~ }}": None}}
    assert merge(site.of("bob"), thing, deep) == (204, None)
    assert merge(alice, thing, pattern) == (204, None)
    expected = {"2023-01": 3, "other": {"b1": 2}, "2023-02": 4}
    assert alice.get(f"{thing}/attributes").json() == expected
    # The event names the keys, so that a history needs no expression.
    parameters = {"fields": "_context", "from-historical-revision": "3"}
    answer = alice.get(thing, params=parameters, headers=EVENTS)
    assert '"2022-01":null' in answer.text
    assert "~" not in answer.text


SLOW: list[dict[str, Any]] = [
    {"{{ ~(a+)+~ }}": None},
    {"{{ ~a*b*c*~ }}": None},
    {"{{ ~(?=a)~ }}": None},
    {"{{ ~(a)\\1~ }}": None},
    {"{{ ~[a~ }}": None},
    {"{{ ~a.*~ }}": 1},
    {"deep": {"{{ ~" + "a" * 201 + "~ }}": None}},
]


@pytest.mark.conformance("ditto.merge.regex.bad")
def test_expressions_that_could_take_long_are_refused(alice: httpx.Client) -> None:
    alice.put("/things/merge:bad", json={"attributes": {"a": 1}})
    for patch in SLOW:
        assert merge(alice, "/things/merge:bad", {"attributes": patch}) == (400, "things:merge.invalid"), patch
    assert alice.get("/things/merge:bad/attributes").json() == {"a": 1}


@pytest.mark.conformance("ditto.merge.conditions")
def test_parts_of_a_patch_have_conditions_of_their_own(site: Site, alice: httpx.Client) -> None:
    thing = "/things/merge:parts"
    hidden = entry("bob", thing=["READ", "WRITE"])
    hidden["resources"]["thing:/attributes/b"] = {"grant": [], "revoke": ["READ"]}
    assert alice.put(thing, json={"attributes": {"a": 15, "b": 90}, "_policy": policy(BOB=hidden)}).status_code == 201

    def given(**conditions: str) -> str:
        return json.dumps({path.replace("_", "/"): text for path, text in conditions.items()})

    conditions = given(attributes_a="gt(attributes/a,20)", attributes_b="gt(attributes/b,80)")
    name = "merge-thing-patch-conditions"
    patch = {"attributes": {"a": 1, "b": 2, "c": 3}}
    assert merge(alice, thing, patch, **{name: conditions}) == (204, None)
    assert alice.get(f"{thing}/attributes").json() == {"a": 15, "b": 2, "c": 3}
    assert merge(alice, f"{thing}/attributes", {"a": 1}, **{name: given(a="eq(attributes/a,15)")}) == (204, None)
    assert alice.get(f"{thing}/attributes/a").json() == 1
    assert merge(alice, f"{thing}/attributes/a", 5, **{name: '{"/":"eq(attributes/a,15)"}'})[0] == 412
    secret = {name: given(attributes_a="gt(attributes/b,1)")}
    refused = site.of("bob").patch(thing, content='{"attributes":{"a":7}}', headers={**MERGE, **secret})
    assert refused.status_code == 412
    assert "insufficient permissions" in refused.json()["message"]
    for bad in ("no", "[]", '{"a":1}', '{"a":"gt("}'):
        assert merge(alice, thing, patch, **{name: bad})[0] == 400
    new = {"attributes": {"x": 1, "y": 2}}
    assert merge(alice, "/things/merge:new", new, **{name: given(attributes_x="exists(attributes/x)")})[0] == 201
    assert alice.get("/things/merge:new/attributes").json() == {"y": 2}
