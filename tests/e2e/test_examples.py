"""The programs of examples/, run as their READMEs say, in a copy of their folder and on free ports.

Elsewhere: Kafka in tests/adapters/kafka, where there is a broker; the Spark job and the notebook in tests/pipeline.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect

from tests.support.browser import Watch, chromium
from tests.support.command import PORTS
from tests.support.forge import Forked, run
from tests.support.process import PATIENCE, READY
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NODE = ROOT / ".venv" / "bin" / "node"
SDK = ROOT / "tests" / "contract" / "node" / "node_modules"
REACT = EXAMPLES / "react-page"
SECRET = "an-example-secret-of-32-characters"


class Example:
    """A copy of a folder, a server in it, and programs beside it; used as a context manager."""

    def __init__(self, folder: Path, name: str, ports: dict[int, int] | None = None) -> None:
        self.folder = folder / name
        shutil.copytree(EXAMPLES / name, self.folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
        for file in self.folder.iterdir():
            for written, free in (ports or {}).items():
                text = file.read_text("utf-8")
                file.write_text(text.replace(str(written), str(free)), "utf-8")
        self._programs: list[subprocess.Popen[str]] = []
        self._server: Forked | None = None
        self.port = self.api_port = 0

    def serve(self, *options: str) -> None:
        self._server = Forked([*(options or ("serve", "--config", "penstock.toml")), *PORTS], cwd=self.folder)
        for line in self._server.stdout:
            if found := READY.match(line):
                self.port, self.api_port = int(found[2]), int(found[4])
                return
        assert self._server.stderr is not None
        raise AssertionError(f"the server did not start: {self._server.stderr.read()}")

    def start(self, program: str | Path, *arguments: str, **environment: str) -> Iterator[str]:
        """The lines that a program prints, as they come. The addresses in it are changed to those of the server."""
        for file in [*self.folder.glob("*.py"), *self.folder.glob("*.html")]:
            text = file.read_text("utf-8")
            text = text.replace("localhost:8080", f"localhost:{self.port}").replace(
                "localhost:8081", f"localhost:{self.api_port}"
            )
            file.write_text(text, "utf-8")
        started = subprocess.Popen(
            [str(program), *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self._programs.append(started)
        assert started.stdout is not None
        return iter(started.stdout)

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """`penstock` to its end: exit code, output, errors."""
        done = run(arguments, cwd=self.folder, environment={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr

    def watch(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        return self.run("watch", *arguments, "--url", f"http://127.0.0.1:{self.port}", **environment)

    def __enter__(self) -> Example:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()
            program.communicate()
        if self._server is not None:
            self._server.terminate()
            self._server.wait(PATIENCE)
            self._server.close()


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in listeners]
    for each in listeners:
        each.close()
    return ports


def test_the_list_names_every_example() -> None:
    page = (EXAMPLES / "README.md").read_text("utf-8")
    named = {link.split("/")[0] for link in re.findall(r"\]\(([^.)][^)]*)\)", page)}
    assert {each.name for each in EXAMPLES.iterdir()} - {"README.md"} == named
    assert len(re.findall(r"^\| \[", page, re.MULTILINE)) == 10


def test_a_python_adapter_and_its_client(tmp_path: Path) -> None:
    with Example(tmp_path, "python-adapter") as example:
        example.serve()
        lines = example.start(sys.executable, "watch.py")
        assert re.fullmatch(r"here \d+\.\d\d\n", next(lines))


@pytest.mark.interop
def test_a_remote_adapter_in_node(tmp_path: Path) -> None:
    one, other = free_ports(2)
    with Example(tmp_path, "node-adapter", {6661: one, 6662: other}) as example:
        (example.folder / "node_modules").symlink_to(SDK)
        example.serve()
        example.start(NODE, "clock.cjs")
        code, output, errors = example.watch("CLOCKS", "Asia/Tokyo", "--fields", "time", "--count", "2")
        assert code == 0, errors
        assert re.search(r"Asia/Tokyo.*time=\d\d:\d\d:\d\d", output)


def test_users_log_in_with_tokens(tmp_path: Path) -> None:
    with Example(tmp_path, "jwt-login") as example:
        secret = example.folder / "secret.txt"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        example.serve()
        ada, bob = [
            next(example.start(sys.executable, "login.py", *words)).strip() for words in (["ada", "trader"], ["bob"])
        ]
        price = ("--fields", "price", "--count", "1")
        for item, token, expected in (("gold", ada, 0), ("tin", bob, 0), ("gold", bob, 1), ("tin", "nonsense", 1)):
            code, output, errors = example.watch("DESK", item, *price, PENSTOCK_PASSWORD=token)
            assert code == expected, errors
            assert ("100.00" in output) == (expected == 0)


def test_a_device_reports_and_follows_its_twin(tmp_path: Path) -> None:
    with Example(tmp_path, "ditto-device") as example:
        example.serve("serve")
        lines = example.start(sys.executable, "device.py", f"ws://127.0.0.1:{example.api_port}/ws/2")
        assert next(lines) == "START-SEND-EVENTS:ACK\n"
        base = f"http://127.0.0.1:{example.api_port}/api/2/things/org.example:heater/features/heater/properties"
        login = {"Authorization": "Basic " + b64encode(b"ditto:ditto").decode()}

        def properties() -> dict[str, float]:
            with urllib.request.urlopen(urllib.request.Request(base, headers=login), timeout=PATIENCE) as answer:
                found: dict[str, float] = json.load(answer)
                return found

        wait_until(lambda: properties()["temperature"] > 18, "a first report")
        change = urllib.request.Request(
            f"{base}/setPoint", b"24", {**login, "Content-Type": "application/json"}, method="PUT"
        )
        urllib.request.urlopen(change, timeout=PATIENCE).close()
        assert next(lines) == "new set point: 24\n"
        wait_until(lambda: properties()["temperature"] > 21, "a report above the first set point")


def test_a_controller_sends_its_signals_and_hears_a_broker(tmp_path: Path) -> None:
    with Example(tmp_path, "tlex-controller", {8090: 0}) as example:
        folder = ("--data-dir", "penstock-data")
        assert example.run("tlex", "account", "add", "Delft", *folder)[0] == 0
        assert example.run("tlex", "tlc", "add", "Delft", "NLZH0023", "--domain", "test", *folder)[0] == 0
        tokens = [
            example.run("tlex", "token", "add", "Delft", "--domain", "test", "--role", role, *folder)[1].strip()
            for role in ("TLC_SYSTEM", "BROKER_SYSTEM")
        ]
        example.serve()
        api = f"http://127.0.0.1:{example.api_port}"
        lines = example.start(sys.executable, "controller.py", api, PENSTOCK_TLEX_TOKEN=tokens[0])
        options = ("NLZH0023", "--domain", "test", "--api", api)
        broker = {"PENSTOCK_TLEX_TOKEN": tokens[1]}
        code, output, errors = example.run("tlex", "receive", *options, "--count", "3", **broker)
        assert code == 0, errors
        assert re.findall(r'"signal": "(\w+)"', output)[0] in ("green", "amber", "red")
        assert (
            example.run("tlex", "send", "NLZH0023", "priority please", *options[1:], "--as", "broker", **broker)[0] == 0
        )
        assert next(lines) == "asked: priority please\n"


@pytest.mark.browser
@pytest.mark.interop
def test_a_react_page_shows_prices_that_change(tmp_path: Path) -> None:
    with Example(tmp_path, "react-page") as example:
        (example.folder / "node_modules").symlink_to(REACT / "node_modules")
        vite = example.folder / "node_modules" / "vite" / "bin" / "vite.js"
        built = subprocess.run(
            [NODE, vite, "build", "--base", "./"], cwd=example.folder, capture_output=True, text=True, check=False
        )
        assert built.returncode == 0, built.stderr
        (example.folder / "penstock.toml").write_text('[pages]\ndirectory = "dist"\npath = "/react"\n')
        example.serve()
        with chromium() as browser, browser.new_context() as context:
            watch = Watch(context)
            address = f"http://127.0.0.1:{example.port}"
            watch.page.goto(f"{address}/react/?server={address}")
            expect(watch.page.locator("tr")).to_have_count(4)
            first = watch.page.locator("table").inner_text()
            expect(watch.page.locator("table")).not_to_have_text(first)
            assert watch.complaints() == []


@pytest.mark.browser
@pytest.mark.interop
def test_a_page_without_a_build_shows_prices(tmp_path: Path) -> None:
    with Example(tmp_path, "react-page") as example:
        (example.folder / "node_modules").symlink_to(REACT / "node_modules")
        example.serve("serve")
        (port,) = free_ports(1)
        [line] = islice(example.start(sys.executable, "-u", "-m", "http.server", str(port)), 1)
        assert "Serving HTTP" in line
        with chromium() as browser, browser.new_context() as context:
            watch = Watch(context)
            watch.page.goto(f"http://localhost:{port}/plain.html")
            expect(watch.page.locator("#prices")).to_contain_text(re.compile(r"Anduct \d+\.\d+"))
            assert watch.complaints() == []


def test_grafana_is_told_where_prometheus_and_the_dashboard_are() -> None:
    folder = EXAMPLES / "grafana"
    [source] = yaml.safe_load((folder / "datasource.yml").read_text("utf-8"))["datasources"]
    assert source["type"] == "prometheus"
    [provider] = yaml.safe_load((folder / "dashboard.yml").read_text("utf-8"))["providers"]
    assert provider["type"] == "file"
    dashboard = json.loads((ROOT / "monitoring" / "grafana.json").read_text("utf-8"))
    [variable] = [each for each in dashboard["templating"]["list"] if each["name"] == "datasource"]
    assert variable["query"] == source["type"]
    named = re.search(r"--config\.file=(\S+)", (folder / "README.md").read_text("utf-8"))
    assert named is not None
    assert (folder / named[1]).resolve() == ROOT / "monitoring" / "prometheus.yml"


BLOCK = re.compile(r"^```\w+ ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "folder"),
    [
        ("README.md", "python-adapter"),
        ("docs/tutorial-front-end.md", "react-page"),
        ("docs/tutorial-traffic-lights.md", "tlex-controller"),
    ],
)
def test_pages_show_the_examples_as_they_are_run(page: str, folder: str) -> None:
    shown = dict(BLOCK.findall((ROOT / page).read_text("utf-8")))
    assert shown
    for name, text in shown.items():
        assert text == (EXAMPLES / folder / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "program"),
    [
        ("docs/tutorial-twins.md", "ditto-device/device.py"),
        ("docs/tutorial-traffic-lights.md", "tlex-controller/controller.py"),
    ],
)
def test_tutorials_quote_lines_of_the_programs(page: str, program: str) -> None:
    written = {line.strip() for line in (EXAMPLES / program).read_text("utf-8").splitlines()}
    for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL):
        assert {line.strip() for line in block.splitlines()} <= written
