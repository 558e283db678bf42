"""Connections to a real HTTP server: events are requests in their order, again if it is busy, and not if it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Event, Thread
from typing import Any

import pytest

from tests.services.connections.world import TwinServer, target
from tests.support.waiting import wait_until

LONG = 60.0


class Endpoint(ThreadingHTTPServer):
    """Keeps what came, and answers with the statuses that a test has put into `statuses`, else with 204."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.came: Queue[tuple[str, str, dict[str, str], Any]] = Queue()
        self.statuses: Queue[int] = Queue()
        # Cleared: requests get no answer.
        self.answers = Event()
        self.answers.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.came.put((self.command, self.path, headers, body["value"]))
        self.server.answers.wait(LONG)
        self.send_response(204 if self.server.statuses.empty() else self.server.statuses.get())
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as made:
        thread = Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.answers.set()
        made.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinServer]:
    with TwinServer(tmp_path_factory.mktemp("server")) as made:
        made.make_policy()
        made.make_thing("plant:lamp")
        yield made


def push(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    uri = endpoint.url.replace("//", "//user:secret@") + "/base"
    address = "PUT:/lamps/{{ thing:name }}"
    return {
        "connectionType": "http-push",
        "uri": uri,
        "targets": [target(address, headerMapping={"x-by": "{{ connection:id }}"}, **more)],
    }


def change(server: TwinServer, *numbers: int) -> None:
    for number in numbers:
        server.twins.put("/things/plant:lamp/attributes/n", json=number)


def test_events_are_requests_in_their_order(endpoint: Endpoint, server: TwinServer) -> None:
    server.connect("lamp", push(endpoint))
    change(server, *range(10))
    found = [endpoint.came.get(timeout=LONG) for _ in range(10)]
    assert [value for *_, value in found] == list(range(10))
    method, path, headers, _ = found[0]
    assert (method, path) == ("PUT", "/base/lamps/lamp")
    assert headers["authorization"] == "Basic dXNlcjpzZWNyZXQ="
    assert headers["content-type"] == "application/vnd.eclipse.ditto+json"
    assert headers["x-by"] == "lamp"
    assert "secret" not in server.operator.get("/lamp").text
    server.operator.delete("/lamp")


def test_a_busy_endpoint_is_asked_again_and_one_that_refuses_is_not(endpoint: Endpoint, server: TwinServer) -> None:
    server.connect("lamp", push(endpoint, issuedAcknowledgementLabel="lamp:lit"))
    for status in (503, 204, 422, 302):
        endpoint.statuses.put(status)
    change(server, 1)
    assert [endpoint.came.get(timeout=LONG)[3] for _ in range(2)] == [1, 1]
    change(server, 2, 3)
    assert [endpoint.came.get(timeout=LONG)[3] for _ in range(2)] == [2, 3]
    wanted = {"requested-acks": "lamp:lit,twin-persisted"}
    answer = server.twins.put("/things/plant:lamp/attributes/n", json=4, params=wanted)
    assert answer.json()["lamp:lit"]["status"] == 204, answer.text
    counts = server.metrics("lamp")["outbound"]["PUT:/lamps/{{ thing:name }}"]
    assert (counts["success"], counts["failure"]) == (2, 2)
    said = " ".join(entry["message"] for entry in server.logs("lamp"))
    assert all(f"the endpoint answers with status {status}" in said for status in (503, 422, 302))
    server.operator.delete("/lamp")


def test_an_endpoint_that_never_answers_does_not_keep_the_connection(endpoint: Endpoint, server: TwinServer) -> None:
    endpoint.answers.clear()
    server.connect("lamp", push(endpoint))
    change(server, 1)
    endpoint.came.get(timeout=LONG)
    assert server.operator.delete("/lamp").status_code == 204


def test_an_endpoint_that_cannot_be_reached_is_said(server: TwinServer) -> None:
    with Endpoint() as gone:
        document = push(gone)
    answer = server.operator.post(f"{server.twins.base_url}connections", params={"dry-run": "true"}, json=document)
    assert answer.status_code == 504
    assert "refused" in answer.json()["message"].lower()
    assert "secret" not in answer.text
    server.connect("lamp", document, wait=False)
    wait_until(lambda: server.status("lamp")["liveStatus"] == "failed", "it has failed")
    server.operator.delete("/lamp")
