from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.e2e.browser import chromium
from tests.interop.published import CLIENTS, REPOSITORY, ROOT, require
from tests.support.process import ServerProcess

PAGE = REPOSITORY / "docs/clients.md"
WEB_CLIENT = REPOSITORY / "web/node_modules"
PRICE = re.compile(r"(Ations Europe|Ripley Software) [\d.]+")

# Two snapshots and at least one update.
LINES = 3

pytestmark = pytest.mark.interop


def program(language: str, demo: ServerProcess) -> str:
    """The first block in this language, with the address of the test's server."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    written: str = blocks[0]
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


def read_prices(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    read: list[str] = []
    while len([line for line in read if PRICE.fullmatch(line)]) < LINES:
        line = process.stdout.readline()
        assert line, f"the program ended early; it said {read}"
        read.append(line.rstrip("\n"))


@pytest.mark.parametrize("name", ["python-2.2.3", "python-1.0.3"])
def test_the_python_program_prints_prices_until_enter_is_pressed(
    name: str, demo: ServerProcess, tmp_path: Path
) -> None:
    _, python, _ = CLIENTS[name]
    script = tmp_path / "prices.py"
    script.write_text(program("python", demo))
    with running([require(python), "-u", script], tmp_path) as process:
        read_prices(process)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(10) == 0


def test_the_node_program_prints_prices(demo: ServerProcess, tmp_path: Path) -> None:
    _, node, _ = CLIENTS["node-9.2.2"]
    (tmp_path / "node_modules").symlink_to(require(ROOT / "node/node_modules"))
    script = tmp_path / "prices.js"
    script.write_text(program("js", demo))
    with running([require(node), script], tmp_path) as process:
        read_prices(process)


@pytest.mark.browser
def test_the_page_shows_prices_although_it_comes_from_elsewhere(demo: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(require(WEB_CLIENT / "lightstreamer-client-web").parent)
    (tmp_path / "index.html").write_text(program("html", demo))
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
