"""An object store like S3 in a process of its own: moto's server, and a relay in front of it that can fail.

Addresses and credentials are in the environment, as programs find them: see `environment`.
"""

from __future__ import annotations

import http.client
import http.server
import re
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, ClassVar
from urllib.request import Request, urlopen

BUCKET = "bucket"
SECRET = "a-secret-key-of-nobody"

_OF_THE_CONNECTION = ("transfer-encoding", "connection", "content-length", "expect")

# Seconds until the server is there; the machine may be busy.
PATIENCE = 120.0


class ObjectStore:
    """Used as a context manager. `fail` says what becomes of the next requests."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.failures: list[tuple[str, str]] = []
        # Requests as method and path, those that failed included.
        self.seen: list[tuple[str, str]] = []

    def __enter__(self) -> ObjectStore:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        found = None
        while found is None:
            line = self._process.stdout.readline()
            assert line, "moto has ended"
            found = re.search(r"Running on http://127\.0\.0\.1:(\d+)", line)
        self._target = int(found[1])
        threading.Thread(target=self._process.stdout.read, daemon=True).start()
        handler = type("Handler", (_Relay,), {"store": self})
        self._relay = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._relay.serve_forever, daemon=True)
        self._thread.start()
        with urlopen(Request(f"http://127.0.0.1:{self._target}/{BUCKET}", method="PUT"), timeout=PATIENCE):
            return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._relay.shutdown()
        self._relay.server_close()
        self._thread.join()
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._relay.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def fail(self, method: str, how: str, times: int = 1) -> None:
        """The next requests of this method: `503` before anything is done, or `lost`, whose answer does not come."""
        self.failures += [(method, how)] * times

    def pass_on(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._target, timeout=PATIENCE)
        try:
            # All of the body is here: neither chunks nor permission to send it are needed.
            kept = {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}
            connection.request(method, path, body, kept)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()


class _Relay(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: ClassVar[ObjectStore]

    def _answer(self) -> None:
        store, method = self.store, self.command
        body = self._body()
        store.seen.append((method, self.path))
        how = next((each for each in store.failures if each[0] == method), None)
        if how is not None:
            store.failures.remove(how)
            if how[1] == "503":
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        status, headers, content = store.pass_on(method, self.path, self.headers, body)
        if how is not None:
            # Done, but nobody hears of it.
            self.close_connection = True
            return
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_THE_CONNECTION:
                self.send_header(name, value)
        length = {name.lower(): value for name, value in headers}.get("content-length", str(len(content)))
        self.send_header("Content-Length", length if method == "HEAD" else str(len(content)))
        self.end_headers()
        if method != "HEAD":
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
