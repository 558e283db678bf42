from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.interop.libraries import REPOSITORY, ROOT, require
from tests.interop.published import CLIENTS
from tests.support.browser import chromium
from tests.support.process import ServerProcess

CLIENTS_PAGE = REPOSITORY / "docs/clients.md"
MODES_PAGE = REPOSITORY / "docs/modes.md"
WEB_CLIENT = REPOSITORY / "web/node_modules"
PRICE = re.compile(r"(Ations Europe|Ripley Software) [\d.]+")

# Two snapshots and at least one update.
LINES = 3

pytestmark = pytest.mark.interop
each_python = pytest.mark.parametrize("name", ["python-2.2.3", "python-1.0.3"])


def block(page: Path, label: str) -> str:
    """The first block with this label: its language, and on some pages a word behind it."""
    found = re.search(rf"^```{label}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page.name} has no block {label}"
    return found[1]


def program(page: Path, label: str, demo: ServerProcess) -> str:
    """Such a block, with the address of the test's server."""
    written = block(page, label)
    assert "http://localhost:8080" in written
    return written.replace("http://localhost:8080", demo.url)


@contextmanager
def running(command: list[str | Path], directory: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    # Reading blocks: a program that says nothing is ended, and its silence shows in what was read.
    alarm = threading.Timer(20, process.kill)
    alarm.start()
    try:
        yield process
    finally:
        alarm.cancel()
        process.kill()
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()


@contextmanager
def running_python(name: str, written: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    script = directory / "program.py"
    script.write_text(written)
    with running([require(CLIENTS[name].program), "-u", script], directory) as process:
        yield process


@contextmanager
def running_node(written: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    (directory / "node_modules").symlink_to(require(ROOT / "node/node_modules"))
    script = directory / "program.js"
    script.write_text(written)
    with running([require(CLIENTS["node-9.2.2"].program), script], directory) as process:
        yield process


def read_until(process: subprocess.Popen[str], is_enough: Callable[[list[str]], bool]) -> list[str]:
    """The lines that the program has printed from here on, when they are enough."""
    assert process.stdout is not None
    read: list[str] = []
    while not is_enough(read):
        line = process.stdout.readline()
        assert line, f"the program ended early; it said {read}"
        read.append(line.rstrip("\n"))
    return read


def press_enter(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def are_prices(lines: list[str]) -> bool:
    return len([line for line in lines if PRICE.fullmatch(line)]) >= LINES


@each_python
def test_the_python_program_prints_prices_until_enter_is_pressed(
    name: str, demo: ServerProcess, tmp_path: Path
) -> None:
    with running_python(name, program(CLIENTS_PAGE, "python", demo), tmp_path) as process:
        read_until(process, are_prices)
        press_enter(process)
        assert process.wait(10) == 0


def test_the_node_program_prints_prices(demo: ServerProcess, tmp_path: Path) -> None:
    with running_node(program(CLIENTS_PAGE, "js", demo), tmp_path) as process:
        read_until(process, are_prices)


def by_row(lines: list[str]) -> dict[str, list[str]]:
    """What happens to each row: commands of one row keep their order, and how often a price changes does not matter."""
    rows: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("item"):
            key, rest = re.sub(r"[\d.]+$", "price", line.replace("None", "null")).split(" ", 1)
            if rest not in rows.setdefault(key, []):
                rows[key].append(rest)
    return rows


@each_python
def test_the_python_portfolio_follows_what_is_bought_and_sold(name: str, demo: ServerProcess, tmp_path: Path) -> None:
    shown = by_row(block(MODES_PAGE, "text portfolio").splitlines())
    held = {key: rows for key, rows in shown.items() if key != "item2"}
    assert len(held) == len(shown) - 1
    with running_python(name, program(MODES_PAGE, "python portfolio", demo), tmp_path) as process:
        read_until(process, lambda lines: by_row(lines) == held)
        press_enter(process)
        read = read_until(process, lambda lines: by_row(lines).get("item2") == shown["item2"][:-1])
        press_enter(process)
        read += read_until(process, lambda lines: by_row(lines).get("item2", [])[-1:] == shown["item2"][-1:])
        assert by_row(read)["item2"] == shown["item2"]
        press_enter(process)
        assert process.wait(10) == 0


def test_the_node_portfolio_buys_and_sells_and_ends(demo: ServerProcess, tmp_path: Path) -> None:
    with running_node(program(MODES_PAGE, "js portfolio", demo), tmp_path) as process:
        output, _ = process.communicate(timeout=20)
    assert by_row(output.splitlines()) == by_row(block(MODES_PAGE, "text portfolio").splitlines())
    assert process.returncode == 0


@pytest.mark.browser
def test_the_page_shows_prices_although_it_comes_from_elsewhere(demo: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(require(WEB_CLIENT / "lightstreamer-client-web").parent)
    (tmp_path / "index.html").write_text(program(CLIENTS_PAGE, "html", demo))
    with serving(tmp_path) as address, chromium() as browser:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_function(f"document.querySelector('#prices').textContent.split('\\n').length > {LINES}")
        shown = page.text_content("#prices") or ""
        assert all(PRICE.fullmatch(line) for line in shown.splitlines())
        assert page.text_content("#status") == "CONNECTED:WS-STREAMING"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads the access log of a test."""


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """The folder over HTTP, on another port than the streaming server and so of another origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(directory))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
