"""Puts the tables of the last runs into docs/performance.md, between `<!-- bench: NAME -->` and `<!-- /bench -->`.

What is outside these markers is written by people. A part whose benchmark has not been run stays as it is.
"""

from __future__ import annotations

import argparse
import re

from bench.rig.build import BUILD
from bench.rig.machine import Cores
from bench.rig.results import RESULTS

ABOUT = "put the tables of the last runs into docs/performance.md"

PAGE = BUILD.parent.parent / "docs" / "performance.md"
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


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    results = {path.stem: path.read_text() for path in RESULTS.glob("*.md")}
    page = PAGE.read_text()
    places = [part[2] for part in PART.finditer(page)]
    PAGE.write_text(filled(page, results))
    for name in places:
        print(f"{name}: {'written' if name in results else 'not run, left as it is'}")
    for name in sorted(set(results) - set(places)):
        print(f"{name}: docs/performance.md has no place for it")
    return True
