"""An object store like S3: moto's server in a process of its own, and in another one a relay that can fail.

The relay is what programs speak to. It can be told to answer 503, to lose an answer, to say nothing, or to refuse
credentials, and it can be killed and started again, while moto keeps the objects. It is a process, not a thread,
because deltalake holds Python's lock in some of its requests.
"""

from __future__ import annotations

import http.client
import http.server
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote
from urllib.request import Request, urlopen

from tests.support.broker_process import free_port

BUCKET = "bucket"
KEY = "nobody"
SECRET = "a-secret-key-of-nobody"
# An access key that the store does not know.
WRONG_KEY = "wrong"

_ROOT = Path(__file__).parents[2]
_OF_THE_CONNECTION = ("transfer-encoding", "connection", "content-length", "expect")
# Where the relay itself is spoken to.
_CONTROL = "/-/"
_ACCESS_KEY = re.compile(r"Credential=([^/]+)/")

# Seconds until the server is there; the machine may be busy.
PATIENCE = 120.0


class ObjectStore:
    """Used as a context manager. `fail` says what becomes of the next requests."""

    def __init__(self) -> None:
        self._moto: subprocess.Popen[str] | None = None
        self._relay: subprocess.Popen[str] | None = None
        self._target = 0
        # One that nobody's connection takes while it is killed.
        self.port = free_port()

    def __enter__(self) -> ObjectStore:
        self._moto, self._target = _started(["moto.server", "-H", "127.0.0.1", "-p", "0"])
        with urlopen(Request(f"http://127.0.0.1:{self._target}/{BUCKET}", method="PUT"), timeout=PATIENCE):
            pass
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        assert self._moto is not None
        _ended(self._moto)

    def start(self) -> None:
        """At the same address as before, with the same objects."""
        self._relay, self.port = _started([__name__, str(self._target), str(self.port)])

    def kill(self) -> None:
        """At once, whatever it was doing: connections break, and new ones are refused."""
        if self._relay is not None:
            _ended(self._relay)
            self._relay = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def fail(self, method: str, how: str, times: int = 1, path: str = "") -> None:
        """The next requests of this method whose path has `path` in it.

        `503`: refused before anything is done; `lost`: done, but the answer does not come; `silent`: neither.
        """
        self._tell("fail", {"failures": [[method, how, path]] * times})

    def forget(self) -> None:
        """Failures that have not happened, and requests seen until now."""
        self._tell("forget", {})

    def expire(self, *keys: str) -> None:
        """From now on requests with these access keys, and no others, are refused as expired; none: allow all again."""
        self._tell("expire", {"keys": keys})

    @property
    def failures(self) -> list[list[str]]:
        """What is still to fail."""
        found: list[list[str]] = self._tell("state", {})["failures"]
        return found

    @property
    def seen(self) -> list[tuple[str, str]]:
        """Requests as method and path, those that failed included."""
        return [(method, path) for method, path in self._tell("state", {})["seen"]]

    def _tell(self, what: str, content: dict[str, Any]) -> dict[str, Any]:
        request = Request(f"{self.endpoint}{_CONTROL}{what}", json.dumps(content).encode(), method="POST")
        with urlopen(request, timeout=PATIENCE) as answer:
            told: dict[str, Any] = json.load(answer)
            return told


def _started(arguments: list[str]) -> tuple[subprocess.Popen[str], int]:
    # A file, not a pipe, because nobody would empty that.
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=_ROOT, stdout=log, stderr=subprocess.STDOUT, text=True
        )
        end = time.monotonic() + PATIENCE
        while True:
            log.seek(0)
            said = log.read()
            found = re.search(r"Running on http://127\.0\.0\.1:(\d+)", said)
            if found is not None:
                return process, int(found[1])
            assert process.poll() is None, f"{arguments[0]} has ended: {said}"
            assert time.monotonic() < end, f"{arguments[0]} does not start: {said}"
            time.sleep(0.05)


def _ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


# -- the relay, in its process --------------------------------------------------------------------------------------


class _Relay(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # Drivers and tasks come at once.
    request_queue_size = 128

    def __init__(self, target: int, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.target = target
        self.failures: list[list[str]] = []
        self.seen: list[tuple[str, str]] = []
        self.expired: set[str] = set()
        self.lock = threading.Lock()

    def control(self, what: str, content: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            match what:
                case "fail":
                    self.failures += content["failures"]
                case "forget":
                    self.failures, self.seen = [], []
                case "expire":
                    self.expired = set(content["keys"])
            return {"failures": self.failures, "seen": self.seen}

    def fate(self, method: str, path: str) -> str:
        with self.lock:
            self.seen.append((method, path))
            for each in self.failures:
                if each[0] == method and each[2] in unquote(path):
                    self.failures.remove(each)
                    return each[1]
        return ""

    def pass_on(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=PATIENCE)
        try:
            # All of the body is here: neither chunks nor permission to send it are needed.
            kept = {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}
            connection.request(method, path, body, kept)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Relay

    def _answer(self) -> None:
        body = self._body()
        if self.path.startswith(_CONTROL):
            told = self.server.control(self.path.removeprefix(_CONTROL), json.loads(body))
            self._send(200, [], json.dumps(told).encode())
            return
        how = self.server.fate(self.command, self.path)
        key = _ACCESS_KEY.search(self.headers.get("Authorization", ""))
        if key is not None and key[1] in self.server.expired:
            text = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
            self._send(400, [("Content-Type", "application/xml")], text)
        elif key is not None and key[1] == WRONG_KEY:
            text = b"<Error><Code>InvalidAccessKeyId</Code><Message>It does not exist.</Message></Error>"
            self._send(403, [("Content-Type", "application/xml")], text)
        elif how == "503":
            self._send(503, [], b"")
        elif how == "silent":
            time.sleep(PATIENCE)
            self.close_connection = True
        else:
            status, headers, content = self.server.pass_on(self.command, self.path, self.headers, body)
            if how == "lost":
                # Done, but nobody hears of it.
                self.close_connection = True
                return
            self._send(status, headers, content)

    def _send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_THE_CONNECTION:
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        length = {name.lower(): value for name, value in headers}.get("content-length", str(len(content)))
        self.send_header("Content-Length", length if is_head else str(len(content)))
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    relay = _Relay(int(sys.argv[1]), int(sys.argv[2]))
    print(f"Running on http://127.0.0.1:{relay.server_address[1]}", flush=True)
    relay.serve_forever()
