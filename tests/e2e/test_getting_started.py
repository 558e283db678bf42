"""docs/getting-started.md, read as a script: every command is typed, every output shown is compared. The README's too.

The word behind the language of a block says where it belongs: `sh server` and `sh stream` go on in terminals of their
own, other `sh` blocks are typed one after another into one shell; `text stream` is what the stream prints next, other
`text` is the answer to the command before it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pytest

from tests.support.command import PORTS
from tests.support.curl import program
from tests.support.process import READY, ServerProcess

ROOT = Path(__file__).parents[2]
INTERRUPTION = "<!-- the stream is interrupted -->"
PRINTED_ADDRESS = "localhost:8080"
END_OF_BLOCK = "end of block"

# Lines that come by the clock, or as often as the market moves: more of them than shown do no harm.
FREQUENT = ("PROBE", "SYNC", "NOOP", "U")

_PART = re.compile(rf"^```(sh|text) ?(\w*)\n(.*?)^```$|^({INTERRUPTION})$", re.MULTILINE | re.DOTALL)


@dataclass
class Part:
    """A block, or the interruption."""

    kind: str
    text: str


def parts(page: Path) -> list[Part]:
    found = []
    for language, place, text, interruption in _PART.findall(page.read_text()):
        found.append(Part("interruption", "") if interruption else Part(f"{language} {place}".strip(), text))
    return found


class Terminal:
    """A shell in a process group of its own, so that Ctrl-C reaches everything that was started in it."""

    def __init__(self, directory: Path, text: str | None, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        self._shell = subprocess.Popen(
            ["sh"] if text is None else ["sh", "-c", text],
            cwd=directory,
            env={**inherited, "NO_PROXY": "*", "no_proxy": "*", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.interrupt()

    def line(self) -> str:
        assert self._shell.stdout is not None
        line = self._shell.stdout.readline()
        assert line, "the terminal has nothing more to say"
        return line.rstrip("\r\n")

    def type(self, text: str) -> list[str]:
        """Type a block and read what it prints."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{text}\necho '{END_OF_BLOCK}'\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        while not lines or lines[-1] != END_OF_BLOCK:
            lines.append(self.line())
        return lines[:-1]

    def interrupt(self) -> None:
        """Ctrl-C, and wait until all is over."""
        if self._shell.poll() is None:
            os.killpg(self._shell.pid, signal.SIGINT)
        self._shell.communicate(timeout=15)


def same(shown: str, printed: str) -> bool:
    """Whether a printed line is of the kind shown: identifiers, times, prices and counts may differ."""
    tag, *arguments = shown.split(",")
    other_tag, *other_arguments = printed.split(",")
    if tag != other_tag or len(arguments) != len(other_arguments):
        return False
    if tag in ("CONOK", "U"):
        numbers = slice(1, None) if tag == "CONOK" else slice(0, 2)
        return arguments[numbers] == other_arguments[numbers] and arguments[-1].count("|") == other_arguments[-1].count(
            "|"
        )
    return tag == "PROG" or shown == printed


def find(shown: list[str], printed: Iterator[str]) -> None:
    """Go through what is printed until all that is shown has come, in this order."""
    for line in shown:
        for other in printed:
            if same(line, other):
                break
            assert other.split(",")[0] in FREQUENT, f"expected {line}, found {other}"
        else:
            pytest.fail(f"{line} was not printed")


def expect_nothing_more(printed: Iterator[str]) -> None:
    assert [line for line in printed if line.split(",")[0] not in FREQUENT] == []


def test_every_command_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    program()
    blocks = parts(ROOT / "docs" / "getting-started.md")
    assert [part.kind for part in blocks[:4]] == ["sh server", "text", "sh stream", "text stream"]
    start, announced, *rest = blocks
    # The same command, on free ports; ARGS is what the page itself says to use for that.
    with Terminal(
        ROOT, start.text, ARGS=" ".join([*PORTS, "--no-pipeline", "--data-dir", str(tmp_path / "data")])
    ) as server:
        place, ready, administrator = announced.text.splitlines()
        while server.line().partition(" at ")[0] != place.partition(" at ")[0]:
            pass  # what make says while it sets something up
        assert READY.fullmatch(ready)
        match = READY.fullmatch(server.line())
        assert match is not None
        before, _, _ = administrator.partition(" password ")
        assert server.line().startswith(f"{before} password ")
        follow(rest, tmp_path, f"localhost:{match[2]}")


def follow(blocks: list[Part], directory: Path, address: str) -> None:
    with Terminal(directory, None) as shell:
        stream: Terminal | None = None
        answer: Iterator[str] = iter(())
        try:
            for block in blocks:
                text = block.text.replace(PRINTED_ADDRESS, address)
                if block.kind == "sh stream":
                    stream = Terminal(directory, text)
                elif block.kind == "sh":
                    expect_nothing_more(answer)
                    answer = iter(shell.type(text))
                elif block.kind == "text":
                    find(text.splitlines(), answer)
                elif block.kind == "text stream":
                    assert stream is not None
                    find(text.splitlines(), iter(stream.line, None))
                else:
                    assert block.kind == "interruption"
                    assert stream is not None
                    stream.interrupt()
            expect_nothing_more(answer)
        finally:
            if stream is not None:
                stream.interrupt()


@pytest.mark.config({"demo.pace": 10})
def test_the_curl_session_of_the_readme_is_what_it_shows(process: ServerProcess, tmp_path: Path) -> None:
    match = re.search(r"^```sh\n(curl .*?)^```\n\n^```\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert match is not None
    command, shown = match.groups()
    with Terminal(tmp_path, command.replace("127.0.0.1:8080", f"{process.host}:{process.port}")) as stream:
        find(shown.splitlines(), iter(stream.line, None))
