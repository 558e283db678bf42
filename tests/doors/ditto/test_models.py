"""Things with Thing Models, against a whole server: models from a folder, and from a real HTTP server."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from penstock.doors.ditto.models import fetch, read_file
from tests.doors.ditto.site import CONFIGURATION, Site, entry, policy

DOCUMENT = Path(__file__).parents[3] / "docs" / "ditto.md"
TD = {"accept": "application/td+json"}
FILES = "https://example.com/models/"


def model(**more: Any) -> dict[str, Any]:
    return {"@context": "https://www.w3.org/2022/wot/td/v1.1", "@type": "tm:ThingModel", "title": "T", **more}


LAMP = json.loads(re.findall(r"^```json model\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)[0])
ROOM = model(
    version={"model": "1.0.0"},
    properties={"name": {"type": "string", "default": "room"}},
    actions={"reset": {}},
    links=[{"rel": "tm:submodel", "href": "switch.tm.jsonld", "instanceName": "Switch"}],
)
SWITCH = model(
    links=[{"rel": "tm:extends", "href": "base.tm.jsonld"}],
    properties={"on": {"type": "boolean"}, "level": {"tm:ref": "base.tm.jsonld#/properties/count", "minimum": 3}},
)
BASE = model(properties={"count": {"type": "integer"}})


class Handler(BaseHTTPRequestHandler):
    """Documents by path; some paths misbehave."""

    asked: ClassVar[list[str]] = []
    release = threading.Event()
    asked_to_hang = threading.Event()
    go_on = threading.Event()

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/models/away":
            self.send_response(302)
            self.send_header("location", "/secret")
            self.end_headers()
            return
        if self.path == "/models/hangs":
            self.asked_to_hang.set()
            self.go_on.wait(60)
        if self.path == "/models/drips":
            # Each byte comes before the time-out of a read.
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
                while not self.release.wait(0.1):
                    self.wfile.write(b"x")
        bodies = {
            "/models/lamp": json.dumps(LAMP).encode(),
            "/models/itself": json.dumps(model(links=[{"rel": "tm:extends", "href": "itself"}])).encode(),
            "/models/outside": json.dumps(model(links=[{"rel": "tm:extends", "href": "/secret"}])).encode(),
            "/models/large": b" " * (1 << 21),
            "/models/text": b"no JSON",
            "/models/other": b"{}",
            "/secret": json.dumps(LAMP).encode(),
        }
        body = bodies.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Handler.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, web: str) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("models")
    for name, document in (("lamp", LAMP), ("room", ROOM), ("switch", SWITCH), ("base", BASE)):
        (folder / f"{name}.tm.jsonld").write_text(json.dumps(document))
    places = json.dumps([f"{FILES}={folder}", f"{web}/models/"])
    configuration = CONFIGURATION.replace('issuer = "idp"', f'issuer = "idp"\nwot_models = {places}')
    with Site(tmp_path_factory.mktemp("site"), configuration=configuration) as running:
        yield running


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_the_requests_in_the_documentation_are_answered_as_it_says(alice: httpx.Client) -> None:
    (found,) = re.findall(r"^```text models\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    lines = found.splitlines()
    for request, expected in zip(lines[::2], lines[1::2], strict=True):
        method, path, body = request.split(" ", 2)
        answer = alice.request(method, path, json=json.loads(body))
        status, _, value = expected.partition(" ")
        assert (answer.status_code, answer.json()) == (int(status), json.loads(value))


def test_a_thing_is_filled_and_described_with_its_features(alice: httpx.Client) -> None:
    made = alice.put("/things/ns:room", json={"definition": f"{FILES}room.tm.jsonld"})
    assert made.status_code == 201
    assert made.json()["attributes"] == {"name": "room"}
    assert made.json()["features"] == {
        "Switch": {
            "definition": [f"{FILES}switch.tm.jsonld", f"{FILES}base.tm.jsonld"],
            "properties": {"count": 0, "on": False, "level": 3},
        }
    }
    described = alice.get("/things/ns:room", headers=TD)
    assert described.headers["content-type"] == "application/td+json"
    told = described.json()
    assert (told["@type"], told["id"]) == ("Thing", "urn:ns:room")
    assert told["base"] == "http://localhost:8081/api/2/things/ns:room/"
    assert told["version"] == {"model": "1.0.0", "instance": "1.0.0"}
    assert [link["rel"] for link in told["links"]] == ["type", "item"]
    assert [form["href"] for form in told["properties"]["name"]["forms"]] == ["attributes/name"] * 4
    feature = alice.get("/things/ns:room/features/Switch", headers=TD).json()
    assert feature["id"] == "urn:ns:room/features/Switch"
    assert feature["properties"]["level"]["minimum"] == 3


def test_a_description_has_only_what_its_reader_may_use(alice: httpx.Client, site: Site) -> None:
    policies = policy(BOB=entry("bob", thing=["READ"]))
    alice.put("/things/ns:shown", json={"definition": f"{FILES}room.tm.jsonld", "_policy": policies})
    told = site.of("bob").get("/things/ns:shown", headers=TD).json()
    assert told["properties"]["name"]["readOnly"] is True
    assert "actions" not in told
    assert "writeallproperties" not in [form["op"] for form in told["forms"]]
    assert refused(site.of("carol").get("/things/ns:shown", headers=TD)) == (404, "things:thing.notfound")


def test_changes_that_do_not_fit_the_model_are_refused(alice: httpx.Client) -> None:
    alice.put("/things/ns:checked", json={"definition": f"{FILES}room.tm.jsonld"})
    wrong = (400, "wot:payload.validation.error")
    assert refused(alice.put("/things/ns:checked/attributes/other", json=1)) == wrong
    assert refused(alice.delete("/things/ns:checked/attributes/name")) == wrong
    assert refused(alice.delete("/things/ns:checked/definition")) == wrong
    assert refused(alice.delete("/things/ns:checked/features/Switch")) == wrong
    assert refused(alice.put("/things/ns:checked/features/Other", json={})) == wrong
    assert refused(alice.put("/things/ns:checked/features/Switch/properties/level", json=2)) == wrong
    assert refused(alice.put("/things/ns:checked/features/Switch/desiredProperties/on", json=2)) == wrong
    assert alice.put("/things/ns:checked/features/Switch/properties/level", json=4).status_code == 204
    assert alice.delete("/things/ns:checked").status_code == 204


def test_a_thing_is_migrated_to_another_model(alice: httpx.Client) -> None:
    alice.put("/things/ns:old", json={"attributes": {"watts": 5}})
    wish = {
        "thingDefinitionUrl": f"{FILES}lamp.tm.jsonld",
        "migrationPayload": {"attributes": {"place": "{{ thing-json:/thingId }}", "watts": 50}},
        "patchConditions": {"thing:/attributes/watts": "gt(attributes/watts,30)"},
    }
    patch = {"definition": f"{FILES}lamp.tm.jsonld", "attributes": {"place": "ns:old"}}
    tried = alice.post("/things/ns:old/migrateDefinition?dry-run=true", json=wish)
    assert (tried.status_code, tried.json()) == (202, {"thingId": "ns:old", "patch": patch, "mergeStatus": "DRY_RUN"})
    assert "definition" not in alice.get("/things/ns:old").json()
    done = alice.post("/things/ns:old/migrateDefinition", json=wish)
    assert (done.status_code, done.json()["mergeStatus"]) == (200, "APPLIED")
    assert alice.get("/things/ns:old").json()["attributes"] == {"watts": 5, "place": "ns:old"}


def test_a_migration_fills_what_is_missing(alice: httpx.Client) -> None:
    alice.put("/things/ns:empty", json={})
    wish: dict[str, Any] = {"thingDefinitionUrl": f"{FILES}room.tm.jsonld"}
    assert refused(alice.post("/things/ns:empty/migrateDefinition", json=wish)) == (400, "wot:payload.validation.error")
    wish["initializeMissingPropertiesFromDefaults"] = True
    assert alice.post("/things/ns:empty/migrateDefinition", json=wish).status_code == 200
    assert alice.get("/things/ns:empty").json()["features"]["Switch"]["properties"]["level"] == 3
    assert refused(alice.post("/things/ns:none/migrateDefinition", json=wish)) == (404, "things:thing.notfound")
    assert refused(alice.post("/things/ns:empty/migrateDefinition", json={})) == (400, "json.field.missing")


def test_a_model_is_fetched_by_its_address_once(alice: httpx.Client, web: str) -> None:
    for number in range(3):
        made = alice.put(f"/things/ns:fetched{number}", json={"definition": f"{web}/models/lamp"})
        assert (made.status_code, made.json()["attributes"]) == (201, {"watts": 7})
    assert Handler.asked.count("/models/lamp") == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("missing", (421, "wot:tm.notfound")),
        ("away", (421, "wot:tm.notfound")),
        ("itself", (400, "wot:tm.invalid")),
        ("outside", (400, "wot:tm.invalid")),
        ("large", (400, "wot:tm.invalid")),
        ("text", (400, "wot:tm.invalid")),
        ("other", (400, "wot:tm.invalid")),
    ],
)
def test_a_model_that_is_none_is_told_and_nothing_is_made(
    alice: httpx.Client, web: str, name: str, expected: tuple[int, str]
) -> None:
    assert refused(alice.put(f"/things/ns:bad-{name}", json={"definition": f"{web}/models/{name}"})) == expected
    assert alice.get(f"/things/ns:bad-{name}").status_code == 404


def test_nothing_is_requested_from_an_address_that_is_not_allowed(alice: httpx.Client, web: str) -> None:
    for number, address in enumerate(("/secret", "/models/../secret", "/models/%2e%2e/secret", "/models/lamp?x=1")):
        made = alice.put(f"/things/ns:outside{number}", json={"definition": f"{web}{address}"})
        assert made.status_code == 201
        assert "attributes" not in made.json()
    described = alice.get("/things/ns:outside0", headers=TD)
    assert refused(described) == (421, "wot:tm.notfound")
    assert "/secret" not in Handler.asked


def test_others_do_not_wait_for_a_host_that_hangs(
    alice: httpx.Client, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.doors.ditto.models.FETCH_SECONDS", 60.0)
    answers: list[httpx.Response] = []

    def wait() -> None:
        answers.append(alice.put("/things/ns:hangs", json={"definition": f"{web}/models/hangs"}))

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert Handler.asked_to_hang.wait(60)
    assert alice.put("/things/ns:quick", json={}).status_code == 201
    assert answers == []
    Handler.go_on.set()
    waiting.join()
    assert refused(answers[0]) == (421, "wot:tm.notfound")


def test_a_host_that_sends_byte_by_byte_is_late_as_well(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.doors.ditto.models.FETCH_SECONDS", 1.0)
    with pytest.raises(TimeoutError, match="timed out"):
        fetch(f"{web}/models/drips")


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "lamp").write_bytes(b"{}")
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "link").symlink_to(folder / "inner" / "lamp")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    assert read_file(folder, "inner/lamp") == read_file(folder, "link") == b"{}"
    for rest in ("out", "up/secret", "none", "inner"):
        with pytest.raises(OSError, match="there is no file"):
            read_file(folder, rest)
    with pytest.raises(OSError, match="loop"):
        read_file(folder, "loop")
