"""The cluster of docs/cluster.md, "Many machines", started by the commands that the page prints, but for the ports."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.forge import Forked
from tests.support.nats_server import NatsServer
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(300)

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text("utf-8").partition("## Many machines\n")[2]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Path]:
    """The files of the page, with a NATS server for them."""
    with NatsServer(tmp_path) as nats:
        found = re.findall(r"`(\w+\.toml)`:\n\n```toml\n(.*?)```", PAGE, re.DOTALL)
        assert [name for name, _ in found] == ["hub.toml", "edge.toml"]
        for name, text in found:
            (tmp_path / name).write_text(text.replace("4222", str(nats.port)))
        yield tmp_path


def commands(beginning: str) -> list[list[str]]:
    """Those of the page that begin so, without what comes first."""
    found = re.findall(rf"^penstock ({beginning} .*)$", PAGE, re.MULTILINE)
    return [shlex.split(each) for each in found]


class Process:
    """A command of the page, in the directory of its files."""

    def __init__(self, arguments: list[str], directory: Path) -> None:
        self._log = directory / f"{len(list(directory.iterdir()))}.log"
        with self._log.open("w") as log:
            self._process = Forked(arguments, cwd=directory, stderr=log)

    def line(self) -> str:
        return self._process.stdout.readline()

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE)
        self._process.close()
        return code


def add_administrator(files: Path) -> str:
    """The one of the page; its password."""
    found = re.search(r"^printf '(.*)\\n' \| penstock (user add .*)$", PAGE, re.MULTILINE)
    assert found is not None
    done = run(files, *shlex.split(found[2]), given=f"{found[1]}\n")
    assert done.returncode == 0, done.stderr
    return found[1]


def api_port_of(hub: Process) -> str:
    found = re.match(r"penstock: ready  api=http://127\.0\.0\.1:(\d+)\n", hub.line())
    assert found is not None
    return found[1]


def expect_status(files: Path, api_port: str) -> None:
    """What `penstock cluster status` prints is like that on the page, as soon as the hub knows all its edges."""
    block = re.search(r"^(name .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    titles, *nodes, epoch = block[1].splitlines()

    def is_like_the_page() -> bool:
        done = run(files, "cluster", "--api", f"http://127.0.0.1:{api_port}", "status")
        assert done.returncode == 0, done.stderr
        heading, *shown, last = done.stdout.splitlines()
        assert heading.split() == titles.split()
        assert re.fullmatch(r"epoch \d+", last)
        rows, expected = [[row.split() for row in lines] for lines in (shown, nodes)]
        kinds = [(row[1:3], row[-1]) for row in rows]
        sessions = sum(int(row[3]) for row in rows)
        return kinds == [(row[1:3], row[-1]) for row in expected] and sessions == 1

    assert re.fullmatch(r"epoch \d+", epoch)
    wait_until(is_like_the_page, "all nodes in the status")


def test_the_commands_of_the_page_make_a_cluster(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ADMIN_PASSWORD", add_administrator(files))
    hub, *edges = commands("serve")
    assert [each[-2] for each in edges] == ["--port", "--port"]
    running = Process([*hub, "--api-port", "0"], files)
    others = []
    ports = {}
    try:
        api_port = api_port_of(running)
        for edge in edges:
            others.append(Process([*edge[:-1], "0"], files))
            found = re.match(r"penstock: ready  stream=http://127\.0\.0\.1:(\d+)\n", others[-1].line())
            assert found is not None
            ports[edge[-1]] = found[1]
        (watch,) = commands("watch")
        watch[-1] = re.sub(r"\d+$", lambda found: ports[found[0]], watch[-1])
        client = Process(watch, files)
        others.append(client)
        assert "item1" in client.line()
        expect_status(files, api_port)
        assert running.end(signal.SIGINT) == 0
        running = Process([*hub, "--api-port", "0"], files)
        api_port = api_port_of(running)
        expect_status(files, api_port)
        # What the old hub had sent comes first: so many lines that they cannot all be of that one.
        assert all(client.line() for _ in range(50))
    finally:
        for each in (running, *others):
            each.end(signal.SIGKILL)
