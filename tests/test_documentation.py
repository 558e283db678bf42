"""The pages for people: links lead somewhere, every page can be found, and no command is used before it can be run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from penstock.config.checks import DEMO_SETS

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
# What a page says of the command: where to read about it, or how it is done.
ON_THE_PATH = ("on the PATH ([Install](install.md))", "is on the PATH", ". .venv/bin/activate")

_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# At the beginning of a command: on its own, behind variables, a pipe or the prompt of a console.
_BARE = re.compile(
    r"^(?:\$ )?(?:\w+=\S*(?:\([^)]*\))? )*penstock |\| (?:\w+=\S*(?:\([^)]*\))? )*penstock ", re.MULTILINE
)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def without_blocks(page: Path) -> str:
    return _BLOCK.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    wrong = []
    for link in _LINK.findall(without_blocks(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_the_readme_leads_to_every_page() -> None:
    named = {(ROOT / link).resolve() for link in _LINK.findall((ROOT / "README.md").read_text("utf-8"))}
    assert [page.name for page in PAGES if page.name != "README.md" and page.resolve() not in named] == []


@pages
def test_a_page_says_how_the_command_gets_on_the_path_before_it_uses_it(page: Path) -> None:
    text = page.read_text("utf-8")
    for block in _BLOCK.finditer(text):
        if block[1] in ("sh", "console") and _BARE.search(block[2]):
            before = text[: block.start()]
            assert any(each in before for each in ON_THE_PATH), block[2]
            return


@pages
def test_no_configuration_of_a_page_takes_a_name_of_the_demo(page: Path) -> None:
    """Who tries it beside the demo would be refused, and who watches it would not know which of the two it is."""
    assert re.findall(rf"(?m)^\[adapters\.({'|'.join(DEMO_SETS)})\b", page.read_text("utf-8")) == []


def test_the_example_for_a_public_server_has_no_demo() -> None:
    example = tomllib.loads((ROOT / "examples" / "penstock.toml").read_text("utf-8"))
    assert example["stream"]["host"] == "0.0.0.0"
    assert example["demo"]["enabled"] is False
