"""The published Ditto client for Node.js creates, changes and watches things on a server process."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from base64 import b64encode
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.interop.libraries import REPOSITORY, ROOT, require
from tests.support.process import ServerProcess

pytestmark = pytest.mark.interop

DRIVER = ROOT / "node-ditto"
VERSION = "3.9.1"

THING = {"thingId": "org.example:lamp", "attributes": {"room": "hall", "watts": 7}, "features": {"light": {}}}


class Node:
    """A process with the client in it. Calls are answered one after another; events are kept."""

    def __init__(self, complaints: Path, server: ServerProcess) -> None:
        require(DRIVER / "node_modules/@eclipse-ditto/ditto-javascript-client-node")
        self._complaints = complaints
        self._server = server
        self._numbers = itertools.count()
        self.events: dict[str, deque[Any]] = {}
        with complaints.open("w") as stderr:
            self._process = subprocess.Popen(
                [require(REPOSITORY / ".venv/bin/node"), DRIVER / "client.cjs"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self._read() == {"version": VERSION}

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the client has ended: {self._complaints.read_text()}"
        return json.loads(line)

    def do(self, action: str, **details: Any) -> Any:
        """What the client's promise came to; raises Rejected."""
        number = next(self._numbers)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": action, **details}) + "\n")
        self._process.stdin.flush()
        while (found := self._read()).get("id") != number:
            self._keep(found)
        if "error" in found:
            raise Rejected(found["error"])
        return found["result"]

    def _keep(self, found: Any) -> None:
        self.events[found["client"]].append(found["event"])

    def open(self, name: str, kind: str, user: str = "ditto", password: str = "ditto") -> Client:
        self.events[name] = deque()
        address = f"127.0.0.1:{self._server.api_port}"
        self.do("open", client=name, kind=kind, address=address, user=user, password=password)
        return Client(self, name)

    def event(self, name: str) -> Any:
        """The next event of a client that watches."""
        while not self.events[name]:
            self._keep(self._read())
        return self.events[name].popleft()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


class Rejected(Exception):
    """The promise was rejected; the argument is what with."""


class Client:
    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self._name = name

    def things(self, method: str, *arguments: Any) -> Any:
        return self._call("Things", method, arguments)

    def features(self, thing: str, method: str, *arguments: Any) -> Any:
        return self._call("Features", method, arguments, thing)

    def policies(self, method: str, *arguments: Any) -> Any:
        return self._call("Policies", method, arguments)

    def search(self, method: str, *arguments: Any) -> Any:
        return self._call("Search", method, arguments)

    def messages(self, method: str, *arguments: Any) -> Any:
        return self._call("Messages", method, arguments)

    def listen(self) -> None:
        self._node.do("listen", client=self._name)

    def _call(self, handle: str, method: str, arguments: tuple[Any, ...], of: str | None = None) -> Any:
        details = {"client": self._name, "handle": handle, "method": method, "arguments": arguments}
        return self._node.do("call", **details, **({} if of is None else {"of": of}))

    def watch(self) -> None:
        self._node.do("watch", client=self._name)

    def event(self) -> Any:
        return self._node.event(self._name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("ditto"), {"demo.enabled": True, "demo.pace": 0.1}) as running:
        yield running


@pytest.fixture
def node(server: ServerProcess, tmp_path: Path) -> Iterator[Node]:
    running = Node(tmp_path / "stderr", server)
    yield running
    running.close()


def named(name: str) -> dict[str, Any]:
    return {"$thing": {**THING, "thingId": name}}


@pytest.mark.parametrize("kind", ["websocket", "http"])
def test_a_thing_is_made_changed_read_and_deleted(node: Node, kind: str) -> None:
    client = node.open("client", kind)
    id = f"org.example:{kind}"
    made = client.things("putThing", named(id))
    assert made["status"] == 201
    assert made["body"]["thingId"] == id
    assert client.things("getThing", id)["attributes"] == THING["attributes"]
    assert client.things("putAttribute", id, "watts", 9)["status"] == 204
    assert client.things("putAttribute", id, "colour", "red")["status"] == 201
    assert client.things("getAttribute", id, "watts") == 9
    assert client.things("getAttributes", id) == {"room": "hall", "watts": 9, "colour": "red"}
    assert client.things("deleteAttribute", id, "colour")["status"] == 204
    assert client.things("patchAttributes", id, {"watts": None, "volts": 230})["status"] == 204
    assert client.things("getAttributes", id) == {"room": "hall", "volts": 230}
    assert client.features(id, "putProperties", "light", {"on": False})["status"] == 201
    assert client.features(id, "putProperty", "light", "on", True)["status"] == 204
    assert client.features(id, "getProperty", "light", "on") is True
    assert client.things("getPolicyId", id) == id
    assert client.things("putDefinition", id, "org.example:lamp:1.0.0")["status"] == 201
    assert client.things("deleteThing", id)["status"] == 204
    with pytest.raises(Rejected) as caught:
        client.things("getThing", id)
    assert caught.value.args[0]["status"] == 404


def test_a_thing_is_created_once(node: Node) -> None:
    client = node.open("client", "websocket")
    assert client.things("createThing", named("org.example:once"))["status"] == 201
    with pytest.raises(Rejected) as caught:
        client.things("createThing", named("org.example:once"))
    assert caught.value.args[0]["status"] == 409


def test_several_things_are_read_at_once(node: Node) -> None:
    client = node.open("client", "http")
    for number in range(3):
        client.things("putThing", named(f"org.example:many-{number}"))
    found = client.things("getThings", ["org.example:many-2", "org.example:none", "org.example:many-0"])
    assert [thing["thingId"] for thing in found] == ["org.example:many-2", "org.example:many-0"]


def test_a_question_that_the_client_asks_only_in_part_is_refused_and_it_goes_on(node: Node) -> None:
    client = node.open("client", "websocket")
    # On a WebSocket this version of the client does not say which things it wants.
    with pytest.raises(Rejected) as caught:
        client.things("getThings", ["org.example:lamp"])
    assert caught.value.args[0]["status"] == 400
    assert client.things("putThing", named("org.example:after"))["status"] == 201


def test_a_client_watches_what_others_change_and_not_what_it_changes_itself(node: Node) -> None:
    watcher, writer, over_http = (
        node.open("watcher", "websocket"),
        node.open("writer", "websocket"),
        node.open("http", "http"),
    )
    watcher.watch()
    id = "org.example:watched"
    writer.things("putThing", named(id))
    watcher.things("putAttribute", id, "mine", 1)
    over_http.things("putAttribute", id, "watts", 11)
    writer.things("deleteThing", id)
    events = [watcher.event() for _ in range(3)]
    assert [(event["action"], event["path"]) for event in events] == [
        ("created", "/"),
        ("modified", "/attributes/watts"),
        ("deleted", "/"),
    ]
    assert events[1]["value"] == 11


def test_a_policy_made_over_http_decides_who_reads(node: Node) -> None:
    client = node.open("client", "http")
    client.things("putThing", named("org.example:ruled"))
    policy = client.policies("getPolicy", "org.example:ruled")
    assert list(policy["entries"]) == ["DEFAULT"]


def test_a_wrong_password_is_refused(node: Node) -> None:
    client = node.open("client", "http", password="wrong")
    with pytest.raises(Rejected) as caught:
        client.things("getThing", "org.example:lamp")
    assert caught.value.args[0]["status"] == 401


def test_things_are_searched_and_counted(node: Node) -> None:
    client = node.open("client", "http")
    for number in range(3):
        thing = {**THING, "thingId": f"org.search:{number}", "attributes": {"n": number}}
        assert client.things("putThing", {"$thing": thing})["status"] == 201
    wanted: dict[str, Any] = {
        "withRawFilter": ["ge(attributes/n,0)"],
        "withNamespaces": ["org.search"],
        "withSort": ["-attributes/n"],
        "withPageSize": [2],
    }
    for method in ("search", "postSearch"):
        first = client.search(method, {"$search": wanted})
        assert [item["thingId"] for item in first["items"]] == ["org.search:2", "org.search:1"]
        rest = client.search(method, {"$search": {**wanted, "withCursor": [first["cursor"]]}})
        assert [item["thingId"] for item in rest["items"]] == ["org.search:0"]
        with pytest.raises(Rejected) as caught:
            client.search(method, {"$search": {"withRawFilter": ["nonsense"]}})
        assert caught.value.args[0]["status"] == 400
    count = {"withRawFilter": ["gt(attributes/n,0)"], "withNamespaces": ["org.search"]}
    assert client.search("count", {"$count": count}) == 2
    assert client.search("postCount", {"$count": count}) == 2


def test_messages_reach_a_client_of_the_live_channel(node: Node) -> None:
    id = "org.example:talks"
    sender = node.open("sender", "http")
    assert sender.things("putThing", named(id))["status"] == 201
    device = node.open("device", "live")
    device.listen()
    now = {"$message": {"withTimeout": [0]}}
    assert sender.messages("messageToThing", id, "ask", "hello", "text/plain", now)["status"] == 202
    assert sender.messages("messageFromFeature", id, "light", "tell", "bye", "text/plain", now)["status"] == 202
    assert sender.messages("claim", id, "please", now)["status"] == 202
    heard = [device.event() for _ in range(3)]
    assert [message["path"] for message in heard] == [
        "/inbox/messages/ask",
        "/features/light/outbox/messages/tell",
        "/inbox/messages/claim",
    ]
    # This client sends a text as JSON, whatever type it names.
    assert [message["value"] for message in heard[:2]] == ['"hello"', '"bye"']


def test_the_answer_to_a_message_reaches_its_sender(node: Node, server: ServerProcess) -> None:
    id = "org.example:answers"
    sender = node.open("sender", "live")
    assert node.open("http", "http").things("putThing", named(id))["status"] == 201
    headers = {"authorization": f"Basic {b64encode(b'ditto:ditto').decode()}"}
    with connect(f"ws://127.0.0.1:{server.api_port}/ws/2", additional_headers=headers) as device:
        device.send("START-SEND-MESSAGES")
        assert device.recv(timeout=30) == "START-SEND-MESSAGES:ACK"

        def answer() -> None:
            heard = json.loads(device.recv(timeout=60))
            device.send(json.dumps({**heard, "status": 200, "value": "fine"}))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        came = sender.messages("messageToThing", id, "ask", "hello", "text/plain")
        thread.join()
    assert (came["status"], came["body"]) == (200, "fine")
