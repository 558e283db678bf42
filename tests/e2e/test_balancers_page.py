"""docs/balancers.md: what it has people type is typed here, in a copy of the examples with ports of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.support.balanced_cluster import NATS
from tests.support.balancers import PLACES, Cluster
from tests.support.nats_server import NatsServer
from tests.support.process import READY

PAGE = (Path(__file__).parents[2] / "docs" / "balancers.md").read_text("utf-8")
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:{PLACES}"}

# Seconds for what should take moments.
PATIENCE = 50.0

pytestmark = pytest.mark.timeout(120)


def block(info: str) -> str:
    [found] = re.findall(rf"(?ms)^```{re.escape(info)}\n(.*?)^```$", PAGE)
    return str(found)


class Typist:
    """Types what the page says, in a copy of the examples. `nats` is where NATS is."""

    def __init__(self, directory: Path, stack: ExitStack, nats: str = NATS) -> None:
        self._directory = directory
        self._examples = Cluster(directory, "haproxy", is_literal=True)
        self._stack = stack
        self._nats = nats

    def block(self, info: str) -> str:
        return self._examples.with_ports(block(info)).replace(NATS, self._nats)

    def started(self, name: str) -> subprocess.Popen[str]:
        command = f"exec {self.block(f'sh {name}')}"
        with (self._directory / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                ["sh", "-c", command], cwd=self._directory, env=ENVIRONMENT, stdout=PIPE, stderr=log, text=True
            )
        self._stack.callback(process.communicate)
        self._stack.callback(process.terminate)
        return process

    def ready(self, name: str, line: re.Pattern[str] = READY) -> subprocess.Popen[str]:
        process = self.started(name)
        assert process.stdout is not None
        assert line.match(process.stdout.readline()), (self._directory / f"{name}.log").read_text()
        return process

    def typed(self, name: str) -> str:
        command = ["bash", "-ec", self.block(f"sh {name}")]
        done = subprocess.run(
            command, cwd=self._directory, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0 or name == "session", done
        return done.stdout

    def session(self, deadline: float) -> str:
        """The node that a session is opened at, as the page shows it."""
        pattern = r"(?i)set-cookie: penstock=([ab]); path=/; HttpOnly\r?\nCONOK,S[0-9a-f]{48}T([ab]),50000,0,\*\r?\n"
        while (found := re.fullmatch(pattern, self.typed("session"))) is None:
            assert time.monotonic() < deadline
        assert found[1] == found[2]
        return found[2]

    def led_to_both(self, balancer: str) -> float:
        deadline = time.monotonic() + PATIENCE
        while {self.session(deadline), self.session(deadline)} != {"a", "b"}:
            assert time.monotonic() < deadline, f"{balancer} leads nobody to one of them"
        return deadline


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    with ExitStack() as stack:
        typist = Typist(tmp_path, stack)
        typist.typed("users")
        nodes = {name: typist.ready(name) for name in "ab"}
        for balancer in ("haproxy", "nginx"):
            balancing = typist.started(balancer)
            deadline = typist.led_to_both(balancer)
            if balancer == "haproxy":
                balancing.terminate()
                balancing.wait(PATIENCE)
        assert "draining" in typist.typed("drain")
        for _ in range(5):
            assert typist.session(deadline) == "b"
        assert nodes["a"].wait(PATIENCE) == 0
        assert typist.session(deadline) == "b"


def test_the_nodes_of_the_page_become_edges_as_it_says(tmp_path: Path) -> None:
    with ExitStack() as stack, NatsServer(tmp_path) as nats:
        typist = Typist(tmp_path, stack, nats.url)
        typist.typed("users")
        typist.typed("edges")
        (tmp_path / "hub.toml").write_text(typist.block("toml hub.toml"))
        typist.ready("hub", re.compile("penstock: ready  api="))
        nodes = {name: typist.ready(name, re.compile("penstock: ready  stream=")) for name in "ab"}
        typist.started("haproxy")
        deadline = typist.led_to_both("haproxy")
        assert typist.typed("drain-edge").startswith("penstock: a: draining, ")
        for _ in range(5):
            assert typist.session(deadline) == "b"
        assert nodes["a"].wait(PATIENCE) == 0
        assert typist.session(deadline) == "b"
