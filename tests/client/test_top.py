"""`penstock top`, as it is installed: a screen of a terminal that is left as it was found, or text and JSON."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from tests.conformance.phrases import add, batch
from tests.support.background import BackgroundServer, MonitoredServer
from tests.support.command import Command, run
from tests.support.raw import Exchange, params
from tests.support.terminal import Terminal

# What a terminal is told to show another screen, and to show the former again; likewise the cursor.
OTHER_SCREEN, FORMER_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
NO_CURSOR, CURSOR = b"\x1b[?25l", b"\x1b[?25h"


@pytest.fixture(scope="module")
def monitored() -> Iterator[MonitoredServer]:
    with MonitoredServer({}) as running:
        yield running


@contextmanager
def session(server: BackgroundServer, user: str, items: str) -> Iterator[None]:
    """Of this user, subscribed to these items."""
    exchange = Exchange(server.host, server.port)
    with exchange.stream(user=user) as stream:
        assert batch(exchange, stream.session, add(group=items, data_adapter="HAND")) == ["REQOK,1"]
        yield
        assert batch(exchange, stream.session, params(reqId=2, op="destroy")) == ["REQOK,2"]


def top(server: BackgroundServer, *options: str) -> tuple[str, ...]:
    return ("top", "TEST", "--url", server.url, *options)


def test_scripts_get_one_object_with_numbers(monitored: MonitoredServer, tmp_path: Path) -> None:
    with session(monitored, "ada", "gold silver"), session(monitored, "bob", "gold"):
        found = run(tmp_path, *top(monitored, "--user", "otto", "--json", "--once", "--sort", "items", "--rows", "2"))
    assert (found.returncode, found.stderr) == (0, "")
    told = json.loads(found.stdout)
    assert told["statistics"]["CLIENTS.SESSIONS"] == 3
    assert told["statistics"]["DESCRIPTORS.OPEN"] > 3
    # It sees itself, with its three subscriptions; --rows leaves bob out.
    assert [(row["user"], row["items"], row["transport"]) for row in told["sessions"]] == [
        ("otto", 3, "websocket"),
        ("ada", 2, "http-streaming"),
    ]
    assert len(told["items"]) == 2


def test_items_are_sorted_as_asked(monitored: MonitoredServer, tmp_path: Path) -> None:
    with session(monitored, "ada", "gold silver"), session(monitored, "bob", "gold"):
        found = run(tmp_path, *top(monitored, "--json", "--once", "--sort-items", "subscribers"))
    (first, *_) = json.loads(found.stdout)["items"]
    assert (first["key"], first["subscribers"]) == ("TEST/HAND/gold", 2)


def test_rates_are_those_of_the_last_second(monitored: MonitoredServer, tmp_path: Path) -> None:
    with session(monitored, "ada", "gold"), Command(tmp_path, *top(monitored, "--json")) as command:
        before = json.loads(command.line())["items"]
        hot: dict[str, Any] = {"key": "", "events_sec": 0}
        while hot["key"] != "TEST/HAND/gold" or not hot["events_sec"]:
            # Again and again: the last second may be over before a busy machine has shown it.
            for price in range(50):
                monitored.update("gold", x=str(price))
            hot = json.loads(command.line())["items"][0]
        assert hot["events"] >= 50
        assert before
        code, _ = command.stop(signal.SIGINT)
    assert (code, command.errors) == (0, "")


def test_without_a_terminal_there_are_pages_of_text(monitored: MonitoredServer, tmp_path: Path) -> None:
    with session(monitored, "ada", "gold"):
        found = run(tmp_path, *top(monitored, "--once"))
    assert (found.returncode, found.stderr) == (0, "")
    assert "\x1b" not in found.stdout
    assert re.match(rf"penstock top: TEST/MONITOR at {monitored.url}, \d\d:\d\d:\d\d\n", found.stdout)
    assert "sessions   2 now" in found.stdout
    assert "sessions: 2, by slowest\n" in found.stdout
    assert re.search(r"\n\S{17} ada +127.0.0.1 +TEST", found.stdout)
    assert re.search(r"\ngold +TEST +HAND +MERGE +1 ", found.stdout)


def test_a_terminal_is_left_as_it_was_found(monitored: MonitoredServer, tmp_path: Path) -> None:
    with Terminal(tmp_path, *top(monitored, "--user", "otto")) as terminal:
        before = terminal.settings
        terminal.read_until(r"otto +127\.0\.0\.1")
        assert OTHER_SCREEN in terminal.raw
        assert NO_CURSOR in terminal.raw
        assert terminal.settings != before
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.finish() == 0
        assert terminal.settings == before
        last = terminal.raw.rindex
        assert last(FORMER_SCREEN) > last(OTHER_SCREEN)
        assert last(CURSOR) > last(NO_CURSOR)
        assert "Traceback" not in terminal.text


@pytest.mark.parametrize("way", ["q", "SIGTERM"])
def test_it_can_be_left_in_other_ways(monitored: MonitoredServer, tmp_path: Path, way: str) -> None:
    with Terminal(tmp_path, *top(monitored)) as terminal:
        before = terminal.settings
        terminal.read_until("sessions: 1, by slowest")
        terminal.press("q") if way == "q" else terminal.process.send_signal(signal.SIGTERM)
        assert terminal.finish() == 0
        assert terminal.settings == before
        assert terminal.raw.rindex(FORMER_SCREEN) > terminal.raw.rindex(OTHER_SCREEN)


def test_keys_change_the_orders(monitored: MonitoredServer, tmp_path: Path) -> None:
    with Terminal(tmp_path, *top(monitored)) as terminal:
        terminal.read_until("by slowest")
        terminal.press("s")
        terminal.read_until(r"sessions: 1, by bandwidth")
        terminal.press("ssi")
        terminal.read_until(r"sessions: 1, by lost")
        terminal.read_until(r"items: \d+, by total")
        terminal.press("q")
        assert terminal.finish() == 0


def test_a_larger_terminal_shows_more(monitored: MonitoredServer, tmp_path: Path) -> None:
    names = " ".join([f"item{number}" for number in range(30)])
    with (
        session(monitored, "ada", names),
        Terminal(tmp_path, *top(monitored), lines=20, columns=80) as terminal,
    ):
        terminal.read_until(r"items: 33")
        terminal.read_until(r"item\d")
        assert "item29" not in terminal.text
        assert "library" not in terminal.text
        terminal.resize(60, 200)
        terminal.read_until(r"library")
        terminal.read_until(r"item29")
        terminal.press("q")
        assert terminal.finish() == 0


def test_it_says_that_the_server_is_away_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(MonitoredServer({}))
        stack.enter_context(Exchange(server.host, server.port).stream(user="ada"))
        terminal = stack.enter_context(Terminal(tmp_path, *top(server, "--user", "otto")))
        terminal.read_until(" ada ")
        assert "connection lost" not in terminal.text
        server.stop()
        terminal.read_until(
            r"penstock: (connection lost, .* nothing is known|still no connection) since \d\d:\d\d:\d\d"
        )
        stack.enter_context(MonitoredServer({"stream.port": server.port}))
        terminal.read_until(r"penstock: connected again after \d+\.\d s")
        terminal.clear()
        # Rows of the server that was there before are not those of this one.
        terminal.read_until(r"sessions: 1, by slowest")
        terminal.clear()
        terminal.read_until(r" otto ")
        assert " ada " not in terminal.text
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.finish() == 0


def test_scripts_are_told_of_outages_beside_the_objects(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(MonitoredServer({}))
        command = stack.enter_context(Command(tmp_path, *top(server, "--json")))
        json.loads(command.line())
        server.stop()
        stack.enter_context(MonitoredServer({"stream.port": server.port}))
        while "connected again" not in command.errors:
            json.loads(command.line())
        assert json.loads(command.line())["statistics"]["CLIENTS.SESSIONS"] == 1
        assert "connection lost" in command.errors
        command.stop(signal.SIGINT)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (
            ["--sort", "beauty"],
            2,
            "--sort is 'beauty'; it must be one of slowest, bandwidth, updates, lost, items, new",
        ),
        (["--sort-items", "x"], 2, "--sort-items is 'x'; it must be one of events, total, subscribers"),
        (["--rows", "0"], 2, "--rows is 0; expected 1 or more"),
        (["--ca", "missing.pem"], 2, "missing.pem cannot be read: No such file or directory"),
        (["--user", "nobody"], 1, "TEST/MONITOR: User/password check failed (code 1)"),
        (["--adapter", "NOPE"], 1, "TEST/NOPE: Data Adapter not found (code 17)"),
        (["--url", "http://127.0.0.1:1"], 3, "nothing listens there"),
        (["--url", "nonsense"], 2, "expected http, https, ws or wss"),
    ],
    ids=["sort", "items", "rows", "ca", "user", "adapter", "nobody there", "address"],
)
def test_mistakes_are_told_in_one_line(
    monitored: MonitoredServer, tmp_path: Path, options: list[str], code: int, words: str
) -> None:
    found = run(tmp_path, *top(monitored, "--once", *options))
    assert (found.returncode, found.stdout) == (code, "")
    assert words in found.stderr
    assert found.stderr.startswith("penstock: ")
    assert found.stderr.count("\n") == 1


def test_an_adapter_without_figures_is_not_waited_for_for_ever(
    monitored: MonitoredServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not as a process: its patience is ten seconds.
    monkeypatch.setattr("penstock.client.top.PATIENCE", 0.5)
    found = CliRunner().invoke(app, top(monitored, "--once", "--adapter", "PLAIN"))
    assert found.exit_code == 1
    assert "TEST/PLAIN: no figures within 0.5 s; is it the adapter monitor?" in found.stderr
