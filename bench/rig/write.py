"""Puts the tables of the last runs into the pages, between `<!-- bench: NAME -->` and `<!-- /bench -->`.

What is outside these markers is written by people. A part whose benchmark has not been run stays as it is.
"""

from __future__ import annotations

import argparse
import re

from bench.rig.build import BUILD
from bench.rig.machine import Cores
from bench.rig.results import RESULTS

ABOUT = "put the tables of the last runs into docs/performance.md and docs/capacity.md"

DOCS = BUILD.parent.parent / "docs"
PAGES = (DOCS / "performance.md", DOCS / "capacity.md")
PART = re.compile(r"(<!-- bench: ([a-z-]+) -->\n).*?(<!-- /bench -->)", re.DOTALL)


def add_options(parser: argparse.ArgumentParser) -> None:
    pass


def connections(options: argparse.Namespace) -> int:
    return 0


def filled(page: str, results: dict[str, str]) -> str:
    """The page with each part whose results are there."""

    def fill(part: re.Match[str]) -> str:
        text = results.get(part[2])
        return part[0] if text is None else f"{part[1]}{text.strip()}\n{part[3]}"

    return PART.sub(fill, page)


def places(page: str) -> dict[str, str]:
    """What is between the markers, by name."""
    return {part[2]: part[0].removeprefix(part[1]).removesuffix(part[3]) for part in PART.finditer(page)}


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    results = {path.stem: path.read_text() for path in RESULTS.glob("*.md")}
    known: list[str] = []
    for path in PAGES:
        page = path.read_text()
        path.write_text(filled(page, results))
        known += places(page)
    for what, names in (
        ("written", [name for name in known if name in results]),
        (
            "left as they are, because they were not run, or not to their end",
            [name for name in known if name not in results],
        ),
        ("no page has a place for", sorted(set(results) - set(known))),
    ):
        if names:
            print(f"{what}: {', '.join(names)}")
    return True
