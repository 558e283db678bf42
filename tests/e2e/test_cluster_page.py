"""The commands of docs/cluster.md as they stand there, but for the ports; and what it says that they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.command import PORTS, Command, run
from tests.support.process import READY
from tests.support.worker_processes import workers_of

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"

pytestmark = pytest.mark.timeout(180)


def blocks(language: str) -> list[str]:
    section = PAGE.read_text("utf-8").partition("## All cores of one machine\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def _without_chance(line: str) -> str:
    """Passwords and ports that differ at every start."""
    return re.sub(r"(password|tlex=[\d.]+:)\s*\S+", r"\1 …", line)


def test_the_commands_do_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, watch, status = [shlex.split(block)[1:] for block in blocks("sh")]
    printed = blocks("text")[0].splitlines()
    with Command(tmp_path, *demo, *PORTS, "--no-pipeline") as command:
        said = [command.line() for _ in printed]
        ready = READY.fullmatch(said[1])
        assert ready is not None
        plain = [line.replace(ready[2], "8080").replace(ready[4], "8081") for line in said]
        assert [_without_chance(line) for line in plain] == [_without_chance(line) for line in printed]
        assert set(workers_of(command.pid)) == {"hub", "w1", "w2"}
        done = run(tmp_path, *watch, "--url", f"http://127.0.0.1:{ready[2]}")
        assert done.returncode == 0, done.stderr
        assert "Ations Europe" in done.stdout
        told = re.search(r"password (\S+)", said[2])
        assert told is not None
        monkeypatch.setenv("PENSTOCK_ADMIN_PASSWORD", told[1])
        monkeypatch.setenv("PENSTOCK_ADMIN_API", f"http://127.0.0.1:{ready[4]}")
        shown = run(tmp_path, *status).stdout.splitlines()
        expected = blocks("text")[-1].splitlines()
        assert shown[0].split() == expected[0].split()
        assert [line.split()[:3] for line in shown[1:4]] == [line.split()[:3] for line in expected[1:4]]
        assert re.fullmatch(r"epoch \d+", shown[4])
        assert command.stop() == (0, "")
