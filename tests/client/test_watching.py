"""`penstock watch`, as it is installed: lines, JSON, a table on a terminal.

What it says of mistakes and of a server that is away is in files of their own beside this one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.background import BackgroundServer
from tests.support.command import PENSTOCK, Command, run
from tests.support.process import ServerProcess
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]

FIELDS = ("--fields", "x y")


def test_each_update_is_a_line_with_what_has_changed(server: BackgroundServer, tmp_path: Path) -> None:
    server.adapter.state["a"] = {"x": "1", "y": None}
    with Command(tmp_path, "watch", "TEST", "a", *FIELDS, "--url", server.url) as command:
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  a  x=1  y=-", command.line())
        server.update("a", x="2\x1b[2J\n")
        assert command.line().endswith("a  x=2\\x1b[2J\\n")
        code, rest = command.stop(signal.SIGINT)
    assert (code, rest, command.errors) == (0, "", "")


def test_scripts_get_json_and_as_many_updates_as_they_want(server: BackgroundServer, tmp_path: Path) -> None:
    server.adapter.state |= {"a": {"x": "1", "y": "ä"}, "b": {"x": "3", "y": None}}
    found = run(tmp_path, "watch", "TEST", "a", "b", *FIELDS, "--url", server.url, "--json", "--count", "2")
    assert (found.returncode, found.stderr) == (0, "")
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(line["item"], line["snapshot"], line["fields"]) for line in lines] == [
        ("a", True, {"x": "1", "y": "ä"}),
        ("b", True, {"x": "3", "y": None}),
    ]


@pytest.mark.parametrize(("options", "shown"), [((), "x=\\xe4"), (("--json",), '"x": "\\u00e4"')])
def test_what_the_output_cannot_show_is_escaped(
    server: BackgroundServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], shown: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    server.adapter.state["a"] = {"x": "ä", "y": None}
    found = run(tmp_path, "watch", "TEST", "a", *FIELDS, "--url", server.url, "--count", "1", *options)
    assert (found.returncode, found.stderr) == (0, "")
    assert shown in found.stdout


def test_of_a_table_each_update_names_its_row(server: BackgroundServer, tmp_path: Path) -> None:
    options = ("--fields", "key command x", "--mode", "COMMAND", "--url", server.url)
    server.adapter.state["a"] = {"key": "r", "command": "ADD", "x": "1"}
    with Command(tmp_path, "watch", "TEST", "a", *options) as command:
        assert command.line().endswith("a  key=r  command=ADD  x=1")
        server.update("a", key="r", command="UPDATE", x="2")
        assert command.line().endswith("a  key=r  command=UPDATE  x=2")
        server.update("a", key="r", command="UPDATE", x="3")
        assert command.line().endswith("a  key=r  command=UPDATE  x=3")
        command.stop(signal.SIGINT)


def test_on_a_terminal_there_is_a_table(server: BackgroundServer, tmp_path: Path) -> None:
    server.adapter.state["a"] = {"x": "[red]1", "y": None}
    with Terminal(tmp_path, "watch", "TEST", "a", *FIELDS, "--url", server.url, "--count", "1") as terminal:
        assert terminal.finish() == 0
        assert re.search(r"item\s+x\s+y", terminal.text)
        assert re.search(r"a\s+\[red\]1\s+-", terminal.text)


def test_a_reader_that_leaves_is_no_error(server: BackgroundServer, tmp_path: Path) -> None:
    server.adapter.state["a"] = {"x": "1", "y": None}
    script = f"{shlex.quote(str(PENSTOCK))} watch TEST a --fields x --url {server.url} | head -1"
    with subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith("a  x=1\n")
        # The next line finds nobody.
        server.update("a", x="2")
        server.update("a", x="3")
        while process.poll() is None:
            server.update("a", x=os.urandom(2).hex())
        assert (process.returncode, process.stderr and process.stderr.read()) == (0, "")


def test_the_example_of_the_page_works(process: ServerProcess, tmp_path: Path) -> None:
    example = re.search(r"^penstock (watch WELCOME .*)$", (ROOT / "docs" / "clients.md").read_text(), re.MULTILINE)
    assert example is not None
    found = run(tmp_path, *shlex.split(example[1]), "--url", process.url, "--json", "--count", "3")
    assert (found.returncode, found.stderr) == (0, "")
    assert [json.loads(line)["item"] for line in found.stdout.splitlines()] == ["item1", "item2", "item3"]
