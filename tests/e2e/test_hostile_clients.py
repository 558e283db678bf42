"""Clients that mean no good, against a process with limits of its own: too many, too slow, too much.

What each sends is bounded in count and time, and stays on this machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import PORTS, Command

PATIENCE = 20.0
READY = re.compile(
    r"penstock: ready  stream=http://127\.0\.0\.1:(\d+)  api=http://127\.0\.0\.1:(\d+)(?:  tlex=[\d.]+:(\d+))?"
)
HEALTH = b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
TLEX = "[tlex]\nenabled = true\nport = 0\ntls_port = 0\n"

# With the end of the logger's name: when it is over, the log says "no longer" in between.
CROWDED = "transport.port too many connections"
SHORTAGE = "no file descriptors left, new connections have to wait"
OVER = "connections are accepted again"


@dataclass(frozen=True, slots=True)
class Site:
    command: Command
    stream: int
    api: int
    tlex: int

    @property
    def ports(self) -> dict[str, int]:
        return {"stream": self.stream, "api": self.api}


@contextmanager
def serving(directory: Path, settings: str = "", limits: dict[int, int] | None = None) -> Iterator[Site]:
    (directory / "penstock.toml").write_text(settings)
    options = ("--config", "penstock.toml", "--data-dir", str(directory / "data"), *PORTS)
    with Command(directory, "serve", *options, limits=limits) as command:
        found = READY.match(command.line())
        assert found is not None
        yield Site(command, int(found[1]), int(found[2]), int(found[3] or 0))
        assert command.is_running, command.errors
        assert command.stop()[0] == 0
        assert "Traceback" not in command.errors


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def health(port: int) -> bytes:
    """The status line of an answer of the port."""
    with connect(port) as link:
        link.sendall(HEALTH)
        found = b""
        while data := link.recv(65_536):
            found += data
    return found.partition(b"\r\n")[0]


def eventually(is_so: object) -> None:
    assert callable(is_so)
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# -- too many ----------------------------------------------------------------------------------------------------------


def test_silent_connections_elsewhere_leave_descriptors_for_streaming(tmp_path: Path) -> None:
    with serving(tmp_path, TLEX, {resource.RLIMIT_NOFILE: 128}) as site, ExitStack() as silent:
        for port in (site.api, site.tlex):
            for _ in range(200):
                silent.enter_context(connect(port))
            assert health(site.stream) == b"HTTP/1.1 200 OK"
        eventually(lambda: CROWDED in site.command.errors)
        assert site.command.errors.count(CROWDED) == 1
        # Nor do they keep others out of the port that they are at.
        assert health(site.api) == b"HTTP/1.1 200 OK"
        assert SHORTAGE not in site.command.errors


def test_descriptors_that_run_out_are_logged_once_for_each_port_and_once_when_it_is_over(tmp_path: Path) -> None:
    with serving(tmp_path, TLEX) as site:
        pid = site.command.pid
        used = descriptors(site)
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 4, hard))
        ports = (site.stream, site.api, site.tlex)
        with ExitStack() as crowd:
            for port in ports:
                for _ in range(10):
                    crowd.enter_context(connect(port))
            eventually(lambda: site.command.errors.count(SHORTAGE) == len(ports))
        for port in (site.stream, site.api):
            assert health(port) == b"HTTP/1.1 200 OK"
        eventually(lambda: site.command.errors.count(OVER) == len(ports))
        assert site.command.errors.count(SHORTAGE) == len(ports)


# -- too much ----------------------------------------------------------------------------------------------------------

FLOOD = 60_000_000
FLOODS = {
    "headers": (b"GET /health HTTP/1.1\r\nHost: h\r\n", b"".join(b"X-%d: a\r\n" % number for number in range(5_000))),
    "one header": (b"GET /health HTTP/1.1\r\nHost: h\r\nX: ", b"a" * 50_000),
    "a target": (b"GET /", b"a" * 50_000),
    "empty lines": (b"", b"\r\n" * 25_000),
    "chunk extensions": (b"POST /health HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 50_000),
    "trailers": (
        b"POST /health HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"".join(b"X-%d: a\r\n" % number for number in range(5_000)),
    ),
}


def pour(port: int, start: bytes, more: bytes) -> None:
    """Send until the server has had enough of it, or all."""
    with connect(port) as link, contextlib.suppress(ConnectionError):
        link.sendall(start)
        for _ in range(FLOOD // len(more)):
            link.sendall(more)


def test_a_flood_at_the_api_port_is_cut_and_the_process_lives_in_little_memory(tmp_path: Path) -> None:
    with serving(tmp_path, limits={resource.RLIMIT_AS: 2_147_483_648}) as site:
        before = resident(site.command.pid)
        for name, (start, more) in FLOODS.items():
            threads = [threading.Thread(target=pour, args=(site.api, start, more)) for _ in range(4)]
            for thread in threads:
                thread.start()
            assert health(site.stream) == b"HTTP/1.1 200 OK", name
            for thread in threads:
                thread.join()
        assert health(site.api) == b"HTTP/1.1 200 OK"
        assert resident(site.command.pid) - before < 50_000_000


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


# -- too slow ----------------------------------------------------------------------------------------------------------

# Short deadlines, so that the test is short.
HASTE = "[limits]\nread_timeout_millis = 1000\nidle_timeout_millis = 1000\nwrite_timeout_millis = 1000\n"
SLOW = {
    "headers": ("-H", "-x", "10", "-l", "20"),
    "body": ("-B", "-s", "100000", "-x", "10", "-l", "20"),
    # It goes on reading what has come long ago, so its end says nothing about the server.
    "reading": ("-X", "-k", "10", "-n", "1", "-z", "1", "-w", "1", "-y", "2", "-l", "4"),
}


@pytest.mark.parametrize("port", ["stream", "api"])
def test_slow_clients_are_let_go_and_hold_up_nobody(tmp_path: Path, port: str) -> None:
    program = shutil.which("slowhttptest")
    assert program is not None, "slowhttptest is not on the path (make system-setup)"
    with serving(tmp_path, HASTE) as site:
        address = f"http://127.0.0.1:{site.ports[port]}/health"
        for kind, options in SLOW.items():
            common = ("-c", "100", "-r", "100", "-i", "1", "-p", "10", "-u", address)
            done = subprocess.run(
                [program, *options, *common], capture_output=True, text=True, timeout=40, check=False, cwd=tmp_path
            )
            printed = plain(done.stdout)
            assert "service available:   YES" in printed, f"{kind}: {printed}"
            assert "service available:   NO" not in printed, f"{kind}: {printed}"
            assert "Exit status: No open connections left" in printed or kind == "reading", f"{kind}: {printed}"
            assert health(site.stream) == b"HTTP/1.1 200 OK"
        # The connections of the last are closed as well, as far as it is the server's to say.
        eventually(lambda: descriptors(site) < 50)


def descriptors(site: Site) -> int:
    return len(os.listdir(f"/proc/{site.command.pid}/fd"))


def plain(text: str) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)
