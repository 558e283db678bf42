"""Two nodes behind HAProxy or nginx, all with the files of examples/balancers as they are but for the ports.

Both nodes publish the same: how late it is, so that a client that has moved from one to the other can be checked.
"""

from __future__ import annotations

import itertools
import re
import shutil
import signal
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.administration import ask, write_users
from tests.support.broker_process import free_ports
from tests.support.forge import Forked
from tests.support.process import READY
from tests.support.raw import CID, PROTOCOL, params
from tests.support.tls import CERTIFICATES

EXAMPLES = Path(__file__).parents[2] / "examples" / "balancers"
BALANCERS = ("haproxy", "nginx")

# Where the balancers listen, by the scheme that leads clients to their nodes.
SCHEMES = {"cookie": 8000, "address": 8001, "link": 8002}
PORTS = (*range(8000, 8005), 8101, 8102, 8111, 8112, 8121, 8122, 8131, 8132, 8141)

# What makes the first scheme one with TLS, whose cookie pages of other sites keep.
SECURE = {
    "haproxy.cfg": {
        "bind 127.0.0.1:8000": "bind 127.0.0.1:8000 ssl crt both.pem",
        "nocache httponly": "nocache httponly secure attr SameSite=None attr Partitioned",
    },
    "nginx.conf": {
        "listen 127.0.0.1:8000;": "listen 127.0.0.1:8000 ssl; ssl_certificate both.pem; ssl_certificate_key both.pem;",
        "Path=/; HttpOnly": "Path=/; HttpOnly; Secure; SameSite=None; Partitioned",
    },
}

# Debian has the balancers there, which is not on everybody's path.
PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"

# Seconds for a process to listen, or to end: several times what it takes on a machine that has much other work.
PATIENCE = 30.0

ADAPTER_SET = """
[demo]
enabled = false

[adapters.TEST.data.DEFAULT]
adapter = "beats:Beats"
parameters = {{ node = "{node}" }}
"""
BEATS = '''
import asyncio
import time
import zlib

from penstock.adapters import DataAdapter


class Beats(DataAdapter):
    """Every item has the time in steps of 200 ms, a checksum of it and of the item, and who tells it."""

    def __init__(self, node):
        self.node = node
        self.items = set()

    async def start(self):
        self.task = asyncio.get_running_loop().create_task(self.run())

    async def stop(self):
        self.task.cancel()

    async def run(self):
        while True:
            for item in self.items:
                self.update(item, self.values(item))
            await asyncio.sleep(0.2)

    def values(self, item):
        beat = str(time.time_ns() // 200_000_000)
        return {"beat": beat, "check": str(zlib.crc32(f"{item} {beat}".encode())), "node": self.node}

    async def subscribe(self, item):
        self.items.add(item)
        self.update(item, self.values(item), snapshot=True)

    async def unsubscribe(self, item):
        self.items.discard(item)
'''
# Seconds of a beat.
BEAT = 0.2
FIELDS = ["beat", "check", "node"]


def is_right(item: str, values: dict[str, Any]) -> bool:
    """Whether a node can have told these values."""
    return bool(values["check"] == str(zlib.crc32(f"{item} {values['beat']}".encode())))


def program(name: str) -> str:
    found = shutil.which(name, path=PLACES)
    assert found is not None, f"{name} is not on the path: run `make system-setup`"
    return found


class Cluster:
    """Used as a context manager. Nodes are called `a` and `b`."""

    def __init__(
        self, directory: Path, balancer: str, more: str = "", tls: bool = False, is_literal: bool = False
    ) -> None:
        """`more` is added to the configuration of both nodes, and so are the items unless it is literal.

        With `tls` the balancer does it for the first scheme, as the comments in its file say.
        """
        self.directory = directory
        self.balancer = balancer
        self._tls = tls
        self._ports: dict[int, int] = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._nodes: dict[str, Forked] = {}
        self._balancing: subprocess.Popen[bytes] | None = None
        (directory / "beats.py").write_text(BEATS)
        if not is_literal:
            write_users(directory / "admins")
        for name in ("haproxy.cfg", "nginx.conf"):
            (directory / name).write_text(self.with_ports(self._example(name)))
        for node in "ab":
            text = self.with_ports((EXAMPLES / f"{node}.toml").read_text())
            items = "" if is_literal else ADAPTER_SET.format(node=node)
            (directory / f"{node}.toml").write_text(text + items + more)

    def _example(self, name: str) -> str:
        text = (EXAMPLES / name).read_text()
        if self._tls:
            for plain, secure in SECURE[name].items():
                assert plain in text, f"{name} has no {plain!r}"
                text = text.replace(plain, secure)
            files = [CERTIFICATES / "certificate.pem", CERTIFICATES / "private_key.pem"]
            (self.directory / "both.pem").write_text("".join([file.read_text() for file in files]))
        return text

    def with_ports(self, text: str) -> str:
        """A text with the ports of this cluster in place of those that are written in it."""
        return re.sub(r"\b8\d{3}\b", lambda found: str(self.port(int(found[0]))), text)

    def port(self, written: int) -> int:
        """The port that stands for one of the files."""
        return self._ports[written]

    def url(self, scheme: str, host: str = "localhost") -> str:
        # A name, because the Python client keeps no cookies of a host that is an address.
        return f"{'https' if self._tls else 'http'}://{host}:{self.port(SCHEMES[scheme])}"

    def __enter__(self) -> Self:
        try:
            self.start("a")
            self.start("b")
            self.start_balancer()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._balancing is not None:
            self.stop_balancer()
        for node in list(self._nodes):
            self.kill(node)

    def new_session(self, scheme: str, address: str) -> str:
        """The identifier of a session that is opened from this address, without a cookie."""
        port = self.port(SCHEMES[scheme])
        connection = HTTPConnection("127.0.0.1", port, PATIENCE, source_address=(address, 0))
        body = f"{params(adapter_set='TEST', polling=True, polling_millis=0)}&LS_cid={CID}"
        connection.request("POST", f"/lightstreamer/create_session.txt?LS_protocol={PROTOCOL}", body)
        line = connection.getresponse().readline().decode()
        connection.close()
        return line.split(",")[1] if line.startswith("CONOK,") else ""

    def expect_led_to(self, node: str, scheme: str) -> None:
        """Wait until the balancer leads somebody new to this node."""
        # From many addresses, because each may be led elsewhere.
        for number in itertools.count():
            if self.new_session(scheme, f"127.9.{number // 250}.{number % 250 + 1}").endswith(f"T{node}"):
                return
            assert number < 5_000, f"nobody is led to {node}"

    # -- nodes ----------------------------------------------------------------------------------------------------

    def start(self, node: str) -> None:
        with (self.directory / f"{node}.log").open("a") as log:
            process = Forked(["serve", "--config", f"{node}.toml"], self.directory, stderr=log)
        self._nodes[node] = process
        line = process.stdout.readline()
        assert READY.match(line), f"no ready line but {line!r}; {self.log(node)[-3000:]}"

    def log(self, node: str) -> str:
        return (self.directory / f"{node}.log").read_text()

    def kill(self, node: str) -> None:
        self._nodes[node].kill()
        self._end(node)

    def stop(self, node: str) -> None:
        """As an operator does without draining first."""
        self._nodes[node].terminate()
        self._end(node)

    def drain(self, node: str, seconds: float | None, stop: bool = True) -> None:
        answer = ask(self.api_port(node), "POST", "/drain", {"seconds": seconds, "stop": stop})
        assert answer.status == 200, answer

    @contextmanager
    def draining(self, node: str) -> Iterator[None]:
        """A drain that goes on for as long as it takes, and is cancelled."""
        self.drain(node, None, stop=False)
        try:
            yield
        finally:
            assert ask(self.api_port(node), "DELETE", "/drain").status == 200
            for scheme in SCHEMES:
                self.expect_led_to(node, scheme)

    def drained(self, node: str) -> None:
        """Wait until a node has stopped after its drain."""
        self._end(node)

    def api_port(self, node: str) -> int:
        return self.port({"a": 8131, "b": 8132}[node])

    def _end(self, node: str) -> None:
        process = self._nodes.pop(node)
        process.wait(PATIENCE)
        process.close()

    # -- the balancer ---------------------------------------------------------------------------------------------

    def start_balancer(self) -> None:
        command = {
            "haproxy": [program("haproxy"), "-db", "-f", "haproxy.cfg"],
            "nginx": [
                *[program("nginx"), "-p", str(self.directory), "-c", str(self.directory / "nginx.conf")],
                *["-g", f"daemon off; pid {self.directory}/nginx.pid; error_log {self.directory}/balancer.log;"],
            ],
        }[self.balancer]
        with (self.directory / "balancer.log").open("ab") as log:
            self._balancing = subprocess.Popen(
                command, cwd=self.directory, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE
        while not self._is_listening():
            assert self._balancing.poll() is None, (self.directory / "balancer.log").read_text()
            assert time.monotonic() < deadline, f"{self.balancer} does not listen"

    def _is_listening(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port(SCHEMES["address"]), timeout=PATIENCE)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def stop_balancer(self) -> None:
        assert self._balancing is not None
        self._balancing.send_signal(signal.SIGTERM)
        self._balancing.wait(PATIENCE)
        self._balancing = None
