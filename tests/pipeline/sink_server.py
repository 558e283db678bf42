"""The sink's protocol in memory, on a real socket, with faults: lost answers, a server that is busy or restarts.

It keeps what was published, in order, and what it was asked. The real one is in penstock.adapters.ingest; this one is
for what a real one does only now and then.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

TOKEN = "a-token-for-the-tests"

# What becomes of a request: "" answered, "lost" done but the answer is not sent, "cut" not done and not answered,
# "restart" the server forgets its stages first; a number: refused with that status.
Fault = str | int


class SinkServer:
    """`published` has a list of rows for each batch that was committed, under (query, batch)."""

    def __init__(self, faults: Iterator[Fault] | None = None) -> None:
        self.published: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self.modes: dict[tuple[str, int], str] = {}
        self.stages: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = {}
        self.asked: list[tuple[str, str]] = []
        self.connections = 0
        self.max_body_bytes = 1 << 30
        self.faults = faults
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                outer.connections += 1

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.serve(self, body)

            do_GET = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> SinkServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def rows(self, query: str | None = None) -> list[dict[str, Any]]:
        """Everything published, in order."""
        return [row for (name, _), rows in self.published.items() if query in (None, name) for row in rows]

    def serve(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        fault = next(self.faults, "") if self.faults is not None else ""
        with self.lock:
            self.asked.append((handler.command, handler.path))
            if fault == "restart":
                self.stages.clear()
            if fault == "cut":
                _drop(handler)
                return
            if isinstance(fault, int):
                _answer(handler, fault, {"errors": [{"error": f"the journal is busy ({fault})"}]})
                return
            status, answer = self._do(handler, body)
        if fault == "lost":
            _drop(handler)
        else:
            _answer(handler, status, answer)

    def _do(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, Any]]:
        if handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, _error("The token is not one of this adapter")
        if len(body) > self.max_body_bytes:
            return 413, _error(f"The body is larger than max_body_bytes = {self.max_body_bytes}: send fewer rows")
        parts = urlsplit(handler.path)
        words = [unquote(word) for word in parts.path.split("/")[3:]]
        asked = parse_qs(parts.query)
        match (handler.command, words):
            case (_, [adapter_set, adapter, *_]) if (adapter_set, adapter) != ("SET", "OUT"):
                return 404, _error(f"There is no ingest adapter {adapter} in set {adapter_set}")
            case ("GET", [_, _]):
                return 200, {"items": {"*": "MERGE"}, "durable": True}
            case ("GET", [_, _, "queries", query]):
                return 200, {"batch": self._last(query)}
            case ("PUT", [_, _, "queries", query, "batches", batch]):
                return self._publish(query, int(batch), asked["mode"][0], lambda: _rows(body))
            case ("PUT", [_, _, "queries", query, "batches", batch, "stages", stage]):
                rows = _rows(body)
                last = self._last(query)
                if last is not None and int(batch) <= last:
                    return 200, {"rows": len(rows), "repeated": True}
                held = self.stages.setdefault((query, int(batch)), {})
                if held.setdefault(stage, rows) != rows:
                    return 409, _error(f"stage {stage} is there with other rows")
                return 200, {"rows": len(rows), "repeated": False}
            case ("POST", [_, _, "queries", query, "batches", batch, "commit"]):
                names = json.loads(body)["stages"]
                held = self.stages.get((query, int(batch)), {})
                last = self._last(query)
                lost = [name for name in names if name not in held]
                if lost and (last is None or int(batch) > last):
                    return 409, _error(f"stage {lost[0]} is not known")
                return self._publish(
                    query, int(batch), asked["mode"][0], lambda: [row for name in names for row in held[name]]
                )
            case ("DELETE", [_, _, "queries", query, "batches", batch]):
                self.stages.pop((query, int(batch)), None)
                return 200, {}
        return 404, _error("no such path")

    def _last(self, query: str) -> int | None:
        return max((batch for name, batch in self.published if name == query), default=None)

    def _publish(
        self, query: str, batch: int, mode: str, rows: Callable[[], list[dict[str, Any]]]
    ) -> tuple[int, dict[str, Any]]:
        last = self._last(query)
        if last is not None and batch <= last:
            return 200, {"rows": 0, "ignored": 0, "repeated": True}
        found = rows()
        bad = [number for number, row in enumerate(found, start=1) if not row["item"]]
        if bad:
            return 422, {"errors": [{"row": bad[0], "error": "column item has no value"}]}
        self.published[query, batch] = found
        self.modes[query, batch] = mode
        self.stages.pop((query, batch), None)
        return 200, {"rows": len(found), "ignored": 0, "repeated": False}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that were dropped on purpose are nothing to print."""


def _rows(body: bytes) -> list[dict[str, Any]]:
    with pa.ipc.open_stream(body) as reader:
        rows: list[dict[str, Any]] = reader.read_all().to_pylist()
    return rows


def _error(text: str) -> dict[str, Any]:
    return {"errors": [{"error": text}]}


def _answer(handler: BaseHTTPRequestHandler, status: int, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _drop(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)
