"""`penstock watch` while its server is away: it says that values are old, since when, and when they no longer are."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.background import BackgroundServer
from tests.support.forge import Forked
from tests.support.terminal import Terminal

FIELDS = ("--fields", "x y")

# Seconds that the end of a command is waited for. Far more than it should take: only a failure is slow.
PATIENCE = 45.0

LOST = r"penstock: connection lost, trying again; nothing is known since \d\d:\d\d:\d\d: .+\n"
STILL = r"penstock: still no connection since \d\d:\d\d:\d\d, trying again: nothing listens there .+\n"
BACK = r"penstock: connected again after \d+\.\d s"


@contextmanager
def watching(*options: str) -> Iterator[Forked]:
    """The command; killed if the test has not stopped it."""
    process = Forked(("watch", "TEST", "a", *FIELDS, *options))
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def complaint(process: Forked) -> str:
    """The next line of its errors."""
    assert process.stderr is not None
    return process.stderr.readline()


def stop(process: Forked) -> None:
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(("mode", "addition"), [("MERGE", ""), ("DISTINCT", ", in a new session: updates .*missing")])
def test_that_the_server_is_away_and_back_is_told_beside_the_lines(mode: str, addition: str) -> None:
    with BackgroundServer({}) as server:
        server.adapter.state["a"] = {"x": "1", "y": None}
        server.adapter.ends_snapshots = True
        port = server.port
        with watching("--url", server.url, "--mode", mode, "--json") as command:
            assert json.loads(command.stdout.readline())["fields"]["x"] == "1"
            server.stop()
            assert re.fullmatch(LOST, complaint(command))
            assert re.fullmatch(STILL, complaint(command))
            again = BackgroundServer({"stream.port": port})
            again.adapter.state["a"] = {"x": "2", "y": None}
            again.adapter.ends_snapshots = True
            with again:
                assert re.fullmatch(f"{BACK}{addition}\n", complaint(command))
                assert json.loads(command.stdout.readline())["fields"]["x"] == "2"
                stop(command)


def test_while_the_server_is_away_it_can_be_left() -> None:
    with BackgroundServer({}) as server:
        server.adapter.state["a"] = {"x": "1", "y": None}
        with watching("--url", server.url) as command:
            assert command.stdout.readline().endswith("a  x=1  y=-\n")
            server.stop()
            assert re.fullmatch(LOST, complaint(command))
            stop(command)


def test_the_table_says_that_its_values_are_old(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(BackgroundServer({}))
        server.adapter.state["a"] = {"x": "11", "y": None}
        terminal = stack.enter_context(Terminal(tmp_path, "watch", "TEST", "a", *FIELDS, "--url", server.url))
        terminal.read_until(r"a\s+11\s+-")
        assert "connection" not in terminal.text
        server.stop()
        # A table is drawn ten times a second: the first report may be replaced before it is seen.
        terminal.read_until(
            r"penstock: (connection lost, .* nothing is known|still no connection) since \d\d:\d\d:\d\d"
        )
        again = BackgroundServer({"stream.port": server.port})
        again.adapter.state["a"] = {"x": "12", "y": None}
        stack.enter_context(again)
        terminal.read_until(r"penstock: connected again after \d+\.\d s")
        terminal.read_until(r"a\s+12\s+-")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.finish() == 0
