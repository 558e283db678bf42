"""The example of docs/tlex.md, typed as it stands there."""

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

from penstock.adapters.tlex.adapter import FIGURES
from penstock.config import load
from penstock.exchange.rights import RIGHTS
from tests.support.process import READY

PAGE = Path(__file__).parents[3] / "docs" / "tlex.md"
TEXT = PAGE.read_text("utf-8")

# Seconds for a few commands, each of which is a process, on a machine that has much other work.
PATIENCE = 120.0

pytestmark = pytest.mark.timeout(300)


def block(mark: str) -> str:
    found = re.search(rf"```{mark}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None, mark
    return found[1]


class Typist:
    """Types what the page says, in a directory of its own, with a server beside."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        program = Path(sys.executable).parent
        self._environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}"}
        self.stream = self.api = ""

    def start(self, commands: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["sh", "-ec", commands],
            cwd=self.directory,
            env=self._environment,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str]) -> None:
        """With all that the commands have started."""
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module", params=["one process", "workers"])
def typist(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typist]:
    directory = tmp_path_factory.mktemp("example")
    configuration = directory / "penstock.toml"
    # As on the page, but for the ports: those may be taken on the machine that runs the tests.
    configuration.write_text(re.sub(r"port = \d+", "port = 0", block("toml penstock.toml")))
    found = Typist(directory)
    preparing = found.start(block("sh example"))
    out, err = preparing.communicate(timeout=PATIENCE)
    assert (preparing.returncode, err) == (0, ""), out
    # The data directory is the default one for both.
    command = "penstock serve --config penstock.toml" if request.param == "one process" else block("sh workers")
    server = found.start(f"exec {command}")
    assert server.stdout is not None
    try:
        ready = READY.match(server.stdout.readline())
        assert ready is not None
        found.stream, found.api = f"http://{ready[1]}:{ready[2]}", f"http://{ready[1]}:{ready[4]}"
        yield found
    finally:
        found.end(server)


def test_the_example_works_as_it_is_written(typist: Typist) -> None:
    receiving = typist.start(f"{block('sh receive').strip()} --api {typist.api}")
    assert receiving.stderr is not None
    assert receiving.stderr.readline() == "penstock: connected\n"
    sending = typist.start(f"{block('sh send').strip()} --api {typist.api}")
    assert sending.communicate(timeout=PATIENCE) == ("penstock: 2 sent\n", "")
    printed, _ = receiving.communicate(timeout=PATIENCE)
    shown = re.search(r"prints controller.*?```\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    assert re.sub(r"\d{13}", "TIME", printed) == re.sub(r"\d{13}", "TIME", shown[1])


def test_v_log_is_passed_on_as_the_page_says(typist: Typist) -> None:
    add, receive = block("sh vlog").strip().splitlines()
    adding = typist.start(add)
    _, err = adding.communicate(timeout=PATIENCE)
    assert (adding.returncode, err) == (0, "")
    receiving = typist.start(f"{receive} --api {typist.api}")
    assert receiving.stderr is not None
    while (line := receiving.stderr.readline()) != "penstock: connected\n":
        # The server notices what the command has changed within two seconds.
        assert "is not registered" in line
        receiving.communicate(timeout=PATIENCE)
        receiving = typist.start(f"{receive} --api {typist.api}")
        assert receiving.stderr is not None
    with_noise = block("sh lines").strip().replace("0E00", r"noise\n0E00")
    sending = typist.start(f"{with_noise} --api {typist.api}")
    printed, complaints = sending.communicate(timeout=PATIENCE)
    assert printed == "penstock: 2 sent\n"
    assert complaints.startswith("penstock: 'noise' is no V-Log message")
    printed, _ = receiving.communicate(timeout=PATIENCE)
    shown = [re.sub(r"\d{13}", "TIME", line) for line in printed.splitlines()]
    assert shown == ["VLOG0001 56 TIME 0600610201", "VLOG0001 56 TIME 0E00310102"]


def test_an_administrator_grants_as_the_page_says(typist: Typist) -> None:
    granting = typist.start(block("sh grant").replace("http://127.0.0.1:8081", typist.api))
    assert granting.communicate(timeout=PATIENCE) == ("", "")
    made = json.loads((typist.directory / "token.json").read_text())
    (typist.directory / "granted.token").write_text(made["token"])
    # The new token is for a broker, and for this controller only.
    receiving = typist.start(
        f"PENSTOCK_TLEX_TOKEN=$(cat granted.token) penstock tlex receive NLZH0024 --domain test --api {typist.api}"
    )
    _, err = receiving.communicate(timeout=PATIENCE)
    assert "'NLZH0024' is not one of the authorization's controllers" in err


def test_the_hub_can_be_watched_as_the_page_says(typist: Typist) -> None:
    script = block(r"python watch\.py").replace("http://127.0.0.1:8080", typist.stream)
    (typist.directory / "watch.py").write_text(script)
    watching = typist.start("exec python watch.py")
    # Often enough that nobody has to wait for a second.
    feeding = typist.start(f"{block('sh feed').strip().replace('sleep 1', 'sleep 0.1')} --api {typist.api}")
    assert watching.stdout is not None
    shown = re.search(r"asyncio\.run\(main\(\)\)\n```\n\n```\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    wanted = {pattern(line) for line in shown[1].splitlines()}
    try:
        while wanted:
            line = watching.stdout.readline()
            assert line, "it has ended"
            wanted = {each for each in wanted if not each.fullmatch(line.strip())}
    finally:
        typist.end(watching)
        typist.end(feeding)


# What is another value each time the example is run.
VARIES = {"key": r"[\w-]+", "rate": r"\d+\.\d", "latency": r"\d+", "payloads": r"[1-9]\d*", "received": r"[1-9]\d*"}


def pattern(line: str) -> re.Pattern[str]:
    """What a line of the page stands for."""
    parts = [word.partition("=") for word in line.split()]
    return re.compile(" ".join([f"{name}{equals}{VARIES.get(name, value)}" for name, equals, value in parts]))


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
