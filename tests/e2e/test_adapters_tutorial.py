"""docs/adapters.md, followed to the letter: its files are written, its commands typed, what it shows is compared.

The word behind the language of a block says what it is: the name of a file, `server`, `watch` and `stream` for commands
that go on in terminals of their own and for what is printed there; `sh` alone is typed, `text` alone is its answer.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.test_getting_started import Terminal
from tests.interop.test_documented_clients import WEB_CLIENT, serving
from tests.support.browser import chromium
from tests.support.process import READY

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
START = "penstock serve --config penstock.toml"
BLOCK = re.compile(r"^```(\w+) ?([\w.]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(\.\d+)?")


def blocks() -> list[tuple[str, str, str]]:
    return BLOCK.findall(PAGE.read_text())


def alike(line: str) -> str:
    """A line without its figures: prices and loads differ."""
    return NUMBER.sub("N", line)


class Reader:
    """Somebody who follows the page in an empty folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._shell = self.terminal(None)
        self._terminals: dict[str, Terminal] = {}
        self._answer: list[str] = []
        self.ports = {"8080": "", "8081": ""}

    def terminal(self, text: str | None) -> Terminal:
        # `penstock` and the Python that has it.
        return self._stack.enter_context(Terminal(self.folder, text, PATH=self._path))

    def with_ports(self, text: str) -> str:
        for printed, actual in self.ports.items():
            text = text.replace(f"localhost:{printed}", f"localhost:{actual}")
        return text

    def follow(self, language: str, place: str, text: str) -> None:
        if "." in place:
            (self.folder / place).write_text(self.with_ports(text))
        elif language == "sh" and place == "server":
            self.start(text)
        elif language == "sh" and place:
            self._close(place)
            self._terminals[place] = self.terminal(self.with_ports(text))
        elif language == "sh":
            assert self._answer == [], "what was printed is shown"
            self._answer = self._shell.type(self.with_ports(text))
        elif place == "server":
            assert READY.fullmatch(text.strip())
        elif place:
            self.find(place, text.splitlines())
        else:
            assert [alike(line) for line in self._answer] == [alike(line) for line in text.splitlines()]
            self._answer = []

    def start(self, text: str) -> None:
        """The same command, on free ports; the program of the page is told which they are."""
        assert text.strip() == START
        self._close("server")
        options = f"--port 0 --api-port 0 --data-dir {self.folder / 'data'}"
        server = self._terminals["server"] = self.terminal(f"exec {START} {options}")
        match = READY.fullmatch(server.line())
        assert match is not None
        before = dict(self.ports)
        self.ports = {"8080": match[2], "8081": match[4]}
        for file in self.folder.glob("watch.py"):
            file.write_text(file.read_text().replace(f"localhost:{before['8080']}", f"localhost:{match[2]}"))

    def find(self, place: str, shown: list[str]) -> None:
        """Read on until all that is shown has come; other items of the same kind may come in between."""
        wanted = [alike(line) for line in shown]
        kinds = {line.split(" ")[0] for line in wanted}
        while wanted:
            line = alike(self._terminals[place].line())
            if line == wanted[0]:
                wanted.pop(0)
            elif place == "watch":
                assert line.split(" ")[0] in kinds, f"{line} is not of the kind shown"

    def _close(self, place: str) -> None:
        if place in self._terminals:
            self._terminals.pop(place).interrupt()


def test_every_step_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    found = blocks()
    assert len(found) > 30
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for language, place, text in found:
            reader.follow(language, place, text)


@pytest.mark.browser
def test_the_page_of_the_page_shows_a_live_price(tmp_path: Path) -> None:
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        found = blocks()
        # Up to the first start, then the page itself.
        first = next(number for number, block in enumerate(found) if block[:2] == ("sh", "server"))
        page = next(block for block in found if block[0] == "html")
        for block in [*found[: first + 1], page]:
            reader.follow(*block)
        (tmp_path / "node_modules").symlink_to(WEB_CLIENT)
        address = stack.enter_context(serving(tmp_path))
        browser = stack.enter_context(chromium())
        tab = browser.new_page()
        tab.goto(address)
        price = "document.querySelector('#price').textContent"
        tab.wait_for_function(f"/^\\d+\\.\\d\\d$/.test({price})")
        before = tab.text_content("#price")
        tab.wait_for_function(f"{price} !== '{before}'")
