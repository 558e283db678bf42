"""docs/text6.md, read as a script: every command is typed, every output shown is compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_getting_started import PRINTED_ADDRESS, ROOT, Terminal, parts
from tests.support.curl import program
from tests.support.process import ServerProcess

PAGE = ROOT / "docs" / "text6.md"

# Lines that come by the clock, as often as the market moves, or as filling: more of them than shown do no harm.
FREQUENT = ("PROBE", "Preamble:", "1,1|")

_UPDATE = re.compile(r"(\d+,\d+)\|(.*)")


def same(shown: str, printed: str) -> bool:
    """Whether a printed line is of the kind shown: identifiers, times and prices may differ, and what has changed."""
    update, other = _UPDATE.fullmatch(shown), _UPDATE.fullmatch(printed)
    if update is not None and other is not None:
        return update[1] == other[1] and update[2].count("|") == other[2].count("|")
    name, separator, _ = shown.partition(":")
    if separator and name in ("SessionId", "KeepaliveMillis"):
        return printed.startswith(f"{name}:")
    return shown == printed


def find(shown: list[str], printed: Iterator[str]) -> None:
    """Go through what is printed until all that is shown has come, in this order."""
    for line in shown:
        for other in printed:
            if same(line, other):
                break
            assert other.startswith(FREQUENT), f"expected {line!r}, found {other!r}"


@pytest.mark.config({"demo.pace": 10, "session.min_keepalive_millis": 200, "session.default_keepalive_millis": 200})
def test_every_command_of_the_page_does_what_the_page_says(process: ServerProcess, tmp_path: Path) -> None:
    program()
    first, *rest = parts(PAGE)
    assert first.kind == "sh stream"
    assert {part.kind for part in rest} == {"text stream", "sh", "text"}
    address = f"localhost:{process.port}"
    with (
        Terminal(tmp_path, first.text.replace(PRINTED_ADDRESS, address)) as stream,
        Terminal(tmp_path, None) as shell,
    ):
        answer: list[str] = []
        for part in rest:
            if part.kind == "text stream":
                find(part.text.splitlines(), iter(stream.line, None))
            elif part.kind == "text":
                assert answer == part.text.splitlines()
                answer = []
            else:
                assert answer == [], "an answer is not shown"
                answer = shell.type(part.text.replace(PRINTED_ADDRESS, address))


def test_the_readme_leads_to_the_page() -> None:
    assert "](docs/text6.md)" in (ROOT / "README.md").read_text()
