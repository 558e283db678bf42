"""The server without the calls that only Linux has: it starts, keeps what it is told, and knows it after a restart.

This is no test on macOS, but what is missing there is missing here too.
"""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.process import READY
from tests.support.raw import Exchange

PATIENCE = 30.0
SOURCES = Path(__file__).parents[2] / "src" / "penstock"

# The one module that looks there; it has another answer, or none, where there is no such thing (tests/monitor).
READS_PROC = SOURCES / "monitor" / "process.py"
TOKEN = "0123456789abcdef"
CONFIGURATION = f"""
[adapters.IN.data.DEFAULT]
adapter = "ingest"
parameters = {{ items = ["*"], tokens = ["{TOKEN}"] }}
journal = {{ items = ["*"], policy = "ack" }}
"""

# Of the modules os, socket, signal and select: none of these is in Python for macOS.
ONLY_LINUX = {
    "os": (
        *("fdatasync", "pwritev", "preadv", "posix_fallocate", "posix_fadvise", "sched_getaffinity"),
        *("sched_setaffinity", "pidfd_open", "eventfd", "memfd_create", "splice", "copy_file_range", "O_TMPFILE"),
        *("O_DIRECT", "getrandom", "pipe2"),
    ),
    "socket": (
        *("TCP_NOTSENT_LOWAT", "TCP_USER_TIMEOUT", "TCP_QUICKACK", "TCP_DEFER_ACCEPT", "TCP_INFO", "TCP_CORK"),
        *("SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_INCOMING_CPU", "MSG_NOSIGNAL", "MSG_ZEROCOPY", "AF_NETLINK"),
    ),
    "signal": ("SIGPOLL", "SIGPWR", "SIGRTMIN", "pidfd_send_signal"),
    "select": ("epoll",),
}
WITHOUT = f"""
import sys
sys.modules["uvloop"] = None
for module, names in {ONLY_LINUX!r}.items():
    found = __import__(module)
    for name in names:
        if hasattr(found, name):
            delattr(found, name)
import selectors
if hasattr(selectors, "EpollSelector"):
    del selectors.EpollSelector
    selectors.DefaultSelector = selectors.PollSelector
from penstock.cli import main
sys.argv[0] = "penstock"
main()
"""


class Server:
    """`penstock serve` in a Python without the calls."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "stderr.txt"
        arguments = ["serve", "--config", "penstock.toml", "--data-dir", "data", "--port", "0", "--api-port", "0"]
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", WITHOUT, *arguments],
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Server:
        assert self._process.stdout is not None
        ready = READY.match(self._process.stdout.readline())
        assert ready is not None, self._log.read_text()
        self.exchange = Exchange(ready[1], int(ready[2]))
        self.api = f"http://127.0.0.1:{ready[4]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=PATIENCE)

    def publish(self, value: str) -> None:
        line = json.dumps({"item": "a", "fields": {"x": value}}).encode()
        request = Request(f"{self.api}/api/ingest/IN/DEFAULT", line, {"Authorization": f"Bearer {TOKEN}"})
        with urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status == 200

    def read(self) -> str:
        with self.exchange.stream("IN") as stream:
            asked = {"op": "add", "subId": 1, "group": "a", "schema": "x", "mode": "MERGE", "snapshot": True}
            assert self.exchange.control(stream.session, reqId=1, **asked) == ["REQOK,1"]
            return stream.read_until("U")[-1]


def test_without_calls_of_linux_and_without_uvloop_everything_is_served_and_kept(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(CONFIGURATION)
    with Server(tmp_path) as server:
        server.publish("1")
        assert server.read() == "U,1,1,1"
        server.publish("2")
    with Server(tmp_path) as server:
        assert server.read() == "U,1,1,2"


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_module_names_what_only_linux_has(path: Path) -> None:
    """`getattr` with a default, or `hasattr` before it, is how they are used where they are there."""
    tree = ast.parse(path.read_text("utf-8"))
    asked = {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr")
        and isinstance(node.args[1], ast.Constant)
    }
    named = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr not in asked
    }
    assert named.isdisjoint({f"{module}.{name}" for module, names in ONLY_LINUX.items() for name in names})
    assert ("/proc/" in path.read_text("utf-8")) == (path == READS_PROC)
