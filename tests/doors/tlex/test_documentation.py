"""The example of docs/tlex.md, typed as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.adapters.tlex.adapter import FIGURES
from penstock.config import load
from penstock.doors.tlex.rights import RIGHTS
from tests.support.process import READY

PAGE = Path(__file__).parents[3] / "docs" / "tlex.md"
TEXT = PAGE.read_text("utf-8")


def block(mark: str) -> str:
    found = re.search(rf"```{mark}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None, mark
    return found[1]


def test_the_example_works_as_it_is_written(tmp_path: Path) -> None:
    configuration = tmp_path / "penstock.toml"
    # As on the page, but for the ports: those may be taken on the machine that runs the tests.
    configuration.write_text(re.sub(r"port = \d+", "port = 0", block("toml penstock.toml")))
    program = Path(sys.executable).parent / "penstock"
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def start(commands: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["sh", "-ec", commands], cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True
        )

    preparing = start(block("sh example"))
    out, err = preparing.communicate(timeout=50)
    assert (preparing.returncode, err) == (0, ""), out
    # The data directory is the default one for both.
    server = start(f"exec penstock serve --config {configuration}")
    assert server.stdout is not None
    try:
        ready = READY.match(server.stdout.readline())
        assert ready is not None
        address = f" --api http://{ready[1]}:{ready[4]}"
        receiving = start(block("sh receive").strip() + address)
        assert receiving.stderr is not None
        assert receiving.stderr.readline() == "penstock: connected\n"
        sending = start(block("sh send").strip() + address)
        assert sending.communicate(timeout=30) == ("penstock: 2 sent\n", "")
        printed, _ = receiving.communicate(timeout=30)
    finally:
        server.terminate()
        server.communicate(timeout=30)
    shown = re.search(r"prints controller.*?```\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    assert re.sub(r"\d{13}", "TIME", printed) == re.sub(r"\d{13}", "TIME", shown[1])


def test_the_page_names_every_role_and_every_field() -> None:
    roles = set(re.findall(r"^\| `([A-Z_]+)` \|", TEXT, re.MULTILINE))
    assert roles == {role.value for role in RIGHTS}
    (figures,) = re.findall(r"^\| `controller/DOMAIN/ID` \| MERGE \| (.*) \|", TEXT, re.MULTILINE)
    assert figures.split(", ") == list(FIGURES)


def test_every_configuration_on_the_page_is_accepted(tmp_path: Path) -> None:
    for number, found in enumerate(re.findall(r"```toml[^\n]*\n(.*?)```", TEXT, re.DOTALL)):
        path = tmp_path / f"{number}.toml"
        path.write_text(found)
        load(path, {})
