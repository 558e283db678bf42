"""What an operator does with the log of a server process: a file, levels, logrotate, one number for one request."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import forge
from tests.support.administration import ask, write_users
from tests.support.process import ServerProcess
from tests.support.raw import Exchange

PATIENCE = 30.0
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

# Plain methods run on threads of the adapter: the number must follow them there.
ADAPTER = """
import logging
from penstock.adapters import MetadataAdapter

class Failing(MetadataAdapter):
    def items(self, session, data_adapter, group):
        logging.getLogger("prices").warning("asked for %s", group)
        raise KeyError(group)
"""


def events(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.02)


def has(path: Path, event: str, times: int = 1) -> Callable[[], bool]:
    return lambda: path.exists() and sum(found["event"] == event for found in events(path)) >= times


class Logging:
    """A server that logs to a file and to nowhere else."""

    def __init__(self, directory: Path, **settings: object) -> None:
        (directory / "prices.py").write_text(ADAPTER)
        self.file = directory / "penstock.log"
        self.process = ServerProcess(
            directory,
            {
                "log.format": "json",
                "log.stderr": False,
                "log.file": str(self.file),
                "demo.enabled": True,
                "adapters.PRICES.metadata.adapter": "prices:Failing",
                "adapters.PRICES.data.DEFAULT.adapter": "penstock.adapters:DataAdapter",
                **settings,
            },
        )

    @property
    def clients(self) -> Exchange:
        return Exchange(self.process.host, self.process.port)


@pytest.fixture
def logging_server(tmp_path: Path) -> Iterator[Logging]:
    made = Logging(tmp_path)
    with made.process:
        yield made


def test_the_log_is_in_the_file_and_a_moved_file_is_begun_again_on_sighup(logging_server: Logging) -> None:
    file, moved = logging_server.file, logging_server.file.with_name("penstock.log-20261115")
    assert has(file, "started")()
    file.rename(moved)
    logging_server.process.send_signal(signal.SIGHUP)
    wait_for(has(file, "configuration reloaded"))
    assert not has(moved, "configuration reloaded")()
    logging_server.process.stop()
    assert has(file, "stopped")()
    assert logging_server.process.log == ""


def test_a_session_is_one_line_when_it_is_opened_and_one_when_it_is_closed(logging_server: Logging) -> None:
    user = 'alice\n{"event":"forged"}'
    with logging_server.clients.stream("DEMO", user=user, password="hunter2") as stream:
        logging_server.clients.control(stream.session, op="destroy", reqId=1)
    wait_for(has(logging_server.file, "session closed"))
    (opened,) = [event for event in events(logging_server.file) if event["event"] == "session opened"]
    (closed,) = [event for event in events(logging_server.file) if event["event"] == "session closed"]
    assert (opened["level"], closed["level"]) == ("info", "info")
    assert opened["user"] == closed["user"] == user
    assert opened["address"] == closed["address"] == "127.0.0.1"
    assert opened["session"] == closed["session"]
    assert (opened["adapter_set"], opened["library"], closed["lost"]) == ("DEMO", "generic_client", 0)
    text = logging_server.file.read_text()
    assert stream.session not in text
    assert "hunter2" not in text


def test_all_lines_about_a_request_have_its_number(logging_server: Logging) -> None:
    with logging_server.clients.stream("PRICES") as stream:
        for number in (1, 2):
            wanted = {"subId": number, "group": f"gold{number}", "schema": "price", "mode": "MERGE"}
            answer = logging_server.clients.control(stream.session, op="add", reqId=number, **wanted)
            assert answer[0].startswith(f"REQERR,{number},")
    found = events(logging_server.file)
    of_adapter = [event for event in found if event["logger"] == "penstock.library.prices"]
    of_server = [event for event in found if event["event"] == "metadata adapter failed"]
    assert [event["event"] for event in of_adapter] == ["asked for gold1", "asked for gold2"]
    numbers = [event["number"] for event in of_adapter]
    assert [event["number"] for event in of_server] == numbers
    assert len(set(numbers)) == 2
    assert all(re.fullmatch("[0-9a-f]{8}", str(number)) for number in numbers)


def test_a_reload_changes_levels(tmp_path: Path) -> None:
    server = Logging(tmp_path)
    with server.process, server.clients.stream("DEMO") as stream:
        assert has(server.file, "session opened")()
        configuration = tmp_path / "penstock.toml"
        wanted = '[log.levels]\n"penstock.doors.reception" = "error"\n"penstock.doors.tlcp" = "debug"\n'
        configuration.write_text(configuration.read_text() + wanted)
        server.process.send_signal(signal.SIGHUP)
        wait_for(has(server.file, "configuration reloaded"))
        server.clients.control(stream.session, op="destroy", reqId=1)
        server.clients.control("Snobody", op="destroy", reqId=2)
        wait_for(has(server.file, "request refused"))
        assert not has(server.file, "session closed")()
        assert not has(server.file, "changes need a restart")()
        configuration.write_text(configuration.read_text().replace("doors.tlcp", "doors.tclp"))
        server.process.send_signal(signal.SIGHUP)
        wait_for(has(server.file, "new configuration rejected, the old one stays in force"))
        server.clients.control("Snobody", op="destroy", reqId=3)
        wait_for(has(server.file, "request refused", 2))


def test_a_level_that_was_set_stays_until_the_configuration_has_another_for_it(tmp_path: Path) -> None:
    category = "penstock.doors.tlcp"
    write_users(tmp_path / "users")
    server = Logging(tmp_path, **{"admin.users": str(tmp_path / "users")})
    configuration = tmp_path / "penstock.toml"

    def reloaded(more: str, times: int) -> object:
        configuration.write_text(configuration.read_text() + more)
        server.process.send_signal(signal.SIGHUP)
        wait_for(has(server.file, "configuration reloaded", times))
        # Levels are the last that a reload changes, and administration waits for one that is under way.
        assert ask(server.process.api_port, "POST", "/reload").status == 200
        return ask(server.process.api_port, "GET", "/levels").body[category]

    with server.process:
        ask(server.process.api_port, "PUT", "/levels", {"category": category, "level": "debug"})
        assert reloaded('[log.levels]\n"penstock.doors" = "warning"\n', 1) == "debug"
        assert reloaded(f'"{category}" = "error"\n', 3) == "error"


def test_a_full_file_is_moved_away_while_the_server_runs(tmp_path: Path) -> None:
    server = Logging(tmp_path, **{"log.file_bytes": 1_000, "log.file_count": 2})
    with server.process:
        for _ in range(20):
            with server.clients.stream("DEMO") as stream:
                server.clients.control(stream.session, op="destroy", reqId=1)
    kept = sorted(path.name for path in tmp_path.glob("penstock.log*"))
    assert kept == ["penstock.log", "penstock.log.1", "penstock.log.2"]
    assert all(path.stat().st_size <= 1_000 for path in tmp_path.glob("penstock.log*"))
    assert all(events(tmp_path / name) for name in kept)


WRONG = [
    ('file = "missing/penstock.log"', 'log.file = "missing/penstock.log": expected a file in an existing directory'),
    ('file = "data"', 'log.file = "data": expected a file, and this is none'),
    ("stderr = false", "log.stderr = false: expected true, or log.file to be set as well"),
    (
        'levels = { "penstock.door" = "debug" }',
        "'penstock.door' is not a category; expected penstock, penstock.adapters",
    ),
    ('levels = { "penstock.doors" = "loud" }', "expected a table of categories in quotes and levels, such as"),
    ('levels = { penstock.doors = "debug" }', "expected a table of categories in quotes and levels, such as"),
    ('levels = { "penstock.library.websockets" = "debug" }', "because it would log passwords"),
]


@pytest.mark.parametrize(("line", "expected"), WRONG)
@pytest.mark.parametrize("command", [("config", "check"), ("serve",)])
def test_what_is_wrong_with_the_log_is_said_before_anything_starts(
    tmp_path: Path, command: tuple[str, ...], line: str, expected: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "penstock.toml").write_text(f"[log]\n{line}\n")
    done = forge.run([*command, "--config", "penstock.toml", "--port", "0", "--api-port", "0"], cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "penstock.toml"]


def test_a_file_that_another_server_writes_stops_the_start(logging_server: Logging, tmp_path: Path) -> None:
    options = ["--config", str(tmp_path / "penstock.toml"), "--port", "0", "--api-port", "0", "--data-dir", "other"]
    done = forge.run(["serve", *options], cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert (
        json.loads(line)["reason"]
        == f"the log file {logging_server.file} cannot be opened: another process is writing it"
    )


def test_the_example_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    section = PAGE.read_text("utf-8").partition("## Log\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    (tmp_path / "logs").mkdir()
    (tmp_path / "penstock.toml").write_text(example)
    done = forge.run(["config", "check", "--config", "penstock.toml"], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
