"""docs/operations.md: what it has people type is typed here, against the server of its example."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import READY
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

PASSWORD = "correct horse battery"

# Seconds for a block. Far more than it should take: only a failure is slow.
PATIENCE = 50.0


def block(info: str) -> str:
    [found] = re.findall(rf"(?ms)^```{re.escape(info)}\n(.*?)^```$", PAGE)
    return str(found)


class Example:
    """The server of the page, at ports of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "penstock.toml").write_text(block("toml penstock.toml").replace("port = 8443", "port = 0"))
        serving = block("sh serve").replace("penstock serve", "exec penstock serve --port 0 --api-port 0")
        self.process = subprocess.Popen(
            ["sh", "-ec", serving], cwd=directory, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        ready = next((found for line in self.process.stdout if (found := READY.match(line))), None)
        assert ready is not None
        self.port, self.tls_port, self.api_port = ready[2], ready[3], ready[4]

    def type(self, commands: str) -> str:
        """What they say; all of them have to go well."""
        here = commands.replace("penstock top", f"penstock top --url http://127.0.0.1:{self.port}")
        here = here.replace(":8443", f":{self.tls_port}")
        environment = ENVIRONMENT | {
            "PENSTOCK_ADMIN_API": f"http://127.0.0.1:{self.api_port}",
            "PENSTOCK_PASSWORD": PASSWORD,
        }
        done = subprocess.run(
            ["sh", "-e"],
            input=here,
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    running = Example(tmp_path)
    yield running
    if running.process.poll() is None:
        running.process.send_signal(signal.SIGTERM)
    running.process.communicate(timeout=20)


def test_top_shows_the_server_on_a_terminal(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    export, command = block("sh top").splitlines()
    assert export == f"export PENSTOCK_PASSWORD='{PASSWORD}'"
    monkeypatch.setenv("PENSTOCK_PASSWORD", PASSWORD)
    arguments = [*command.split()[1:], "--url", f"http://127.0.0.1:{example.port}"]
    with Terminal(example.directory, *arguments) as terminal:
        terminal.read_until(r"sessions   1 now")
        terminal.read_until(r" otto ")
        terminal.read_until(r"monitor_sessions")
        terminal.press("q")
        assert terminal.finish() == 0


def test_scripts_get_pages_and_objects(example: Example) -> None:
    page, told = example.type(block("sh top-scripts")).rsplit("\n\n", 1)
    assert "sessions: 1, by lost" in page
    assert json.loads(told)["sessions"][0]["user"] == "otto"


def test_a_new_certificate_is_used_at_once(example: Example) -> None:
    old = (example.directory / "server.pem").read_text()
    example.type(block("sh certificates"))
    renewed = (example.directory / "server.pem").read_text()
    assert renewed != old
    shown = example.type("openssl s_client -connect 127.0.0.1:8443 </dev/null 2>/dev/null | openssl x509\n")
    assert shown.strip() == renewed.strip()


def test_a_drained_server_stops(example: Example) -> None:
    commands = block("sh drain")
    assert "--seconds 30" in commands
    example.type(commands.replace("--seconds 30", "--seconds 1"))
    assert example.process.wait(PATIENCE) == 0


def test_promtool_takes_the_files_as_the_page_has_it() -> None:
    done = subprocess.run(
        ["sh", "-e"], input=block("sh alerts"), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
