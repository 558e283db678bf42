"""docs/balancers.md: what it has people type is typed here, in a copy of the examples with ports of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.balancers import PLACES, Cluster
from tests.support.process import READY

PAGE = (Path(__file__).parents[2] / "docs" / "balancers.md").read_text("utf-8")
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:{PLACES}"}

# Seconds for what should take moments.
PATIENCE = 50.0

pytestmark = pytest.mark.timeout(120)


def block(info: str) -> str:
    [found] = re.findall(rf"(?ms)^```{re.escape(info)}\n(.*?)^```$", PAGE)
    return str(found)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    examples = Cluster(tmp_path, "haproxy", is_literal=True)

    def started(stack: ExitStack, name: str) -> subprocess.Popen[str]:
        command = f"exec {examples.with_ports(block(f'sh {name}'))}"
        with (tmp_path / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                ["sh", "-c", command], cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True
            )
        stack.callback(process.communicate)
        stack.callback(process.terminate)
        return process

    def typed(name: str) -> str:
        command = ["bash", "-ec", examples.with_ports(block(f"sh {name}"))]
        done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0 or name == "session", done
        return done.stdout

    def session(deadline: float) -> str:
        """The node that a session is opened at, as the page shows it."""
        pattern = r"(?i)set-cookie: penstock=([ab]); path=/; HttpOnly\r?\nCONOK,S[0-9a-f]{48}T([ab]),50000,0,\*\r?\n"
        while (found := re.fullmatch(pattern, typed("session"))) is None:
            assert time.monotonic() < deadline
        assert found[1] == found[2]
        return found[2]

    typed("users")
    with ExitStack() as stack:
        nodes = {name: started(stack, name) for name in "ab"}
        for name, process in nodes.items():
            assert process.stdout is not None
            assert READY.match(process.stdout.readline()), (tmp_path / f"{name}.log").read_text()
        for balancer in ("haproxy", "nginx"):
            balancing = started(stack, balancer)
            deadline = time.monotonic() + PATIENCE
            while {session(deadline), session(deadline)} != {"a", "b"}:
                assert time.monotonic() < deadline, f"{balancer} leads nobody to one of them"
            if balancer == "haproxy":
                balancing.terminate()
                balancing.wait(PATIENCE)
        assert "draining" in typed("drain")
        for _ in range(5):
            assert session(deadline) == "b"
        assert nodes["a"].wait(PATIENCE) == 0
        assert session(deadline) == "b"
