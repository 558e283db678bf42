"""A stand-in for the API of Kubernetes, as far as Spark speaks to it: it keeps what it is given, and runs nothing.

`made` holds the objects by kind and name, `pods` tells which pods there are, and `on_pod` is told of each new one: a
test that runs a pod's container as a process says with `phase` what becomes of it. Watches stay silent; Spark asks for
the list of its pods as well.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import re
import threading
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

_OBJECT = re.compile(
    r"/(?:api/v1|apis/networking\.k8s\.io/v1)/namespaces/(?P<namespace>[^/]+)/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+))?"
)
_KINDS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "networkpolicies": "NetworkPolicy",
}

# What RFC 6455 has a server add to the key of a handshake.
_WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

Made = dict[str, Any]


class Kubernetes:
    """Used as a context manager; `url` is what `k8s://` takes."""

    def __init__(self, on_pod: Callable[[Made], None] = lambda pod: None) -> None:
        self.made: dict[tuple[str, str], Made] = {}
        # What nobody knows how to answer; a test looks that there is nothing.
        self.unknown: list[str] = []
        self.on_pod = on_pod
        self._lock = threading.Lock()
        kubernetes = self

        class Handler(_Handler):
            api = kubernetes

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="kubernetes", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def pods(self) -> list[Made]:
        return self.of("pods")

    def of(self, kind: str) -> list[Made]:
        with self._lock:
            return [made for (which, _), made in self.made.items() if which == kind]

    def phase(self, pod: Made, phase: str) -> None:
        with self._lock:
            pod["status"] = {"phase": phase, "containerStatuses": []}

    def __enter__(self) -> Kubernetes:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    # -- of the handler -------------------------------------------------------------------------------------------

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Made | None]:
        """Status and object."""
        parts = urlsplit(target)
        found = _OBJECT.fullmatch(parts.path)
        asked = parse_qs(parts.query)
        if found is None or found["kind"] not in _KINDS:
            self.unknown.append(f"{method} {target}")
            return 404, None
        kind, name = found["kind"], found["name"]
        if method == "GET" and name is None:
            chosen = [made for made in self.of(kind) if _has(made, asked.get("labelSelector", [""])[0])]
            return 200, {"kind": f"{_KINDS[kind]}List", "apiVersion": "v1", "metadata": {}, "items": chosen}
        if method in ("POST", "PATCH", "PUT"):
            return self._keep(method, kind, name, found["namespace"], json.loads(body))
        if method == "DELETE":
            self._drop(kind, name, asked.get("labelSelector", [""])[0])
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        made = self.made.get((kind, name))
        return (404, None) if made is None else (200, made)

    def _keep(self, method: str, kind: str, name: str | None, namespace: str, given: Made) -> tuple[int, Made]:
        with self._lock:
            name = name or given["metadata"]["name"]
            before = self.made.get((kind, name))
            if before is not None and method == "PATCH":
                before["metadata"].update(given.get("metadata", {}))
                return 200, before
            given["metadata"] |= {"uid": str(uuid.uuid4()), "resourceVersion": "1", "namespace": namespace}
            if kind == "pods":
                given["status"] = {"phase": "Pending"}
            self.made[kind, name] = given
        if kind == "pods":
            self.on_pod(given)
        return 201, given

    def _drop(self, kind: str, name: str | None, selector: str) -> None:
        with self._lock:
            for key, made in list(self.made.items()):
                if key[0] == kind and (key[1] == name or (name is None and _has(made, selector))):
                    del self.made[key]


def _has(made: Made, selector: str) -> bool:
    """Whether all labels are there; `NAME in (A, B)` is what Spark asks besides NAME=VALUE, and its negation."""
    labels = made["metadata"].get("labels", {})
    return all(labels.get(name) == value for name, _, value in (one.partition("=") for one in _plain(selector)))


def _plain(selector: str) -> list[str]:
    return [
        one for one in re.sub(r"[^,]+ (not)?in \([^)]*\)", "", selector).split(",") if "=" in one and "!" not in one
    ]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Kubernetes

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self._watch()
            return
        status, made = self.api.answer(self.command, self.path, body)
        content = b"" if made is None else json.dumps(made).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _watch(self) -> None:
        """A watch by WebSocket, until the other side leaves."""
        key = self.headers["Sec-WebSocket-Key"].encode() + _WEBSOCKET
        self.send_response_only(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode())
        self.end_headers()
        while self.rfile.read(1):
            pass
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads it."""
