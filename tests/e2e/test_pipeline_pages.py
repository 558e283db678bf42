"""What docs/pipeline.md and docs/history.md say besides the tutorial: options and settings with their defaults, code.

No Spark is started here. The tutorial is followed in `test_pipeline_tutorial`.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

import penstock.cli  # noqa: F401 - it adds commands to those of `penstock history`
from penstock.config import load
from penstock.history.commands import app as history_app
from penstock.pipeline import options, publish_stream, target
from penstock.pipeline.commands import app as pipeline_app
from penstock.pipeline.jobs import JOBS
from tests.history.world import World

DOCS = Path(__file__).parents[2] / "docs"
PIPELINE = (DOCS / "pipeline.md").read_text()
HISTORY = (DOCS / "history.md").read_text()

# An item of the pages, and what the world of these tests calls it.
ITEM, HERE = "WELCOME/STOCKS/item2", "item-2"

# Options that a page mentions of another command.
OTHERS = {"--no-pipeline": "demo", "--revisions": "history show"}


def section(page: str, title: str) -> str:
    """From a heading to the next one of any level."""
    return page.partition(f"{title}\n")[2].partition("\n#")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of its tables, without heads."""
    found = []
    for table in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        for line in table.splitlines()[2:]:
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def code(page: str, language: str) -> list[tuple[str, str]]:
    """The words behind the language of each block, and its text."""
    return re.findall(rf"^```{language}([^\n]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_page_has_every_option_of_the_source_with_its_default() -> None:
    table = {name: row[1] for row in rows(section(PIPELINE, "## The source")) for name in names(row[0])}
    assert list(table) == list(options.NAMES)
    defaults = {"startingOffset": "starting", "endingOffset": "ending", "maxEventsPerTrigger": "max_events"}
    defaults |= {"onExpired": "on_expired", "pushFilters": "push_filters", "partitions": "partitions"}
    for option, attribute in defaults.items():
        assert table[option] == f"`{str(getattr(options.SourceOptions, attribute)).lower()}`", option


def test_the_page_has_every_option_of_the_sink_and_every_argument_of_publish_stream() -> None:
    table = rows(section(PIPELINE, "## Items from a DataFrame"))
    here = [row for row in table if len(row) == 4]
    told = [name for row in here for name in names(row[0])]
    assert told == [*target.OPTIONS.values(), "checkpointLocation"]
    parameters = dict(inspect.signature(publish_stream).parameters)
    arguments = {name: row[2] for row in here for name in names(row[1])}
    assert set(arguments) == set(parameters)
    for name in ("mode", "trigger", "output_mode"):
        assert arguments[name] == f"`{parameters[name].default}`"


@pytest.mark.parametrize("name", JOBS)
def test_the_page_has_every_setting_of_a_job_with_its_default(name: str) -> None:
    settings = JOBS[name].load().Settings
    table: dict[str, str] = {}
    for row in rows(section(PIPELINE, f"### {name}")):
        table |= dict(zip(names(row[0]), names(row[1]), strict=True))
    expected = {field.name: field.default for field in msgspec.structs.fields(settings)}
    assert list(table) == list(expected)
    for setting, default in expected.items():
        given: Any = tomllib.loads(f"x = {table[setting]}")["x"]
        assert given == (list(default) if isinstance(default, tuple) else default), setting


@pytest.mark.parametrize(
    ("page", "app", "commands"),
    [
        (PIPELINE, pipeline_app, ["list", "status", "run", "backfill", "replay"]),
        (HISTORY, history_app, ["tail", "show", "erase", "erased", "maintain"]),
    ],
    ids=["pipeline", "history"],
)
def test_every_command_and_option_is_told_and_what_is_told_exists(page: str, app: Any, commands: list[str]) -> None:
    group: Any = typer.main.get_command(app)
    assert sorted(group.commands) == sorted(commands)
    known: set[str] = set()
    for command in commands:
        assert f"penstock {'pipeline' if app is pipeline_app else 'history'} {command}" in page
        for parameter in group.commands[command].params:
            if not getattr(parameter, "hidden", False):
                known |= {name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")}
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page))
    assert told - (OTHERS.keys() - known) == known


def test_the_configurations_of_the_page_are_accepted(tmp_path: Path) -> None:
    found = [text for _, text in code(PIPELINE, "toml")]
    assert len(found) == 3
    for text in found:
        path = tmp_path / "penstock.toml"
        path.write_text(text)
        config = load(path, {}).config
        for name, given in config.pipeline.jobs.items():
            msgspec.convert(dict(given), JOBS[name].load().Settings)


def test_all_python_of_the_pages_is_python_and_what_it_imports_exists() -> None:
    found = [text for page in (PIPELINE, HISTORY) for _, text in code(page, "python")]
    assert len(found) > 10
    for text in found:
        # An ellipsis among arguments stands for those that were shown before.
        tree = ast.parse(text.replace(", …)", ")"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock"):
                line = f"from {node.module} import {', '.join(one.name for one in node.names)}"
                exec(line, {})


def test_links_inside_the_pages_lead_somewhere() -> None:
    for page in (PIPELINE, HISTORY):
        for file, anchor in re.findall(r"\]\(([\w-]+\.md)?(?:#([\w-]+))?\)", page):
            text = (DOCS / file).read_text() if file else page
            heads = [
                re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in re.findall(r"^#+ (.*)$", text, re.M)
            ]
            assert not anchor or anchor in heads, f"{file}#{anchor}"


def test_the_sections_that_the_sources_point_to_are_there() -> None:
    titles = set(re.findall(r"^#+ (.*)$", PIPELINE, re.MULTILINE))
    pointed: set[str] = set()
    for path in (DOCS.parent / "src").rglob("*.py"):
        pointed |= set(re.findall(r'docs/pipeline\.md, "([^"]+)"', path.read_text()))
    assert len(pointed) > 5
    assert pointed <= titles


def test_the_code_of_the_history_page_reads_lake_and_journal(tmp_path: Path) -> None:
    data = tmp_path / "penstock-data"
    data.mkdir()
    world = World(data)
    world.fill(300, entities=5)
    # In several files of each bucket, which other tools read in any order.
    for stop in (101, 201, 301):
        world.move(stop)
    from penstock.pipeline.maintenance import summarize

    summarize(world.lake)
    world.fill(30, entities=5)
    world.close()
    # Polars and DuckDB are not installed here (`tests.interop.test_other_tools`). Rows come in any order.
    (_, other), *_ = [found for found in code(HISTORY, "python") if "polars" in found[0]]
    assert re.search(r'\.sort\("revision"\)\.tail\(', other)
    program = "\n".join(text for words, text in code(HISTORY, "python") if not words).replace(ITEM, HERE)
    program += textwrap.dedent(
        """
        import json
        for some in prices, quick:
            assert list(some["revision"]) == list(range(1, 61)), some
        print(json.dumps([len(prices), list(prices.columns), len(entities), complete_up_to, len(quick)]))
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" ") for line in lines[:20]] == [
        [str(event.revision), event.kind, event.value] for event in world.of(HERE, first=1, last=20)
    ]
    # The newest is in the journal only.
    assert lines[20] == str(world.of(HERE)[-1])
    assert json.loads(lines[-1]) == [60, ["revision", "timestamp", "value"], 5, 300, 60]
