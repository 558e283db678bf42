"""DuckDB and polars read what is journaled as docs/sql.md and docs/history.md say, without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.maintenance import summarize
from tests.e2e.test_pipeline_pages import HERE, HISTORY, ITEM, code
from tests.history.world import World
from tests.interop.libraries import REPOSITORY, require
from tests.pipeline.test_sql_page import blocks, plant

__all__ = ["plant"]

pytestmark = pytest.mark.interop

# The code of a page, which assigns what it has found, or says what it looks for and leaves it there.
PROGRAM = """
import ast, json, sys
names, found = {}, []
for each in ast.parse(sys.stdin.read()).body:
    if isinstance(each, ast.Expr):
        value = eval(compile(ast.Expression(each.value), "page", "eval"), names)
        found.append(sorted(value.fetchall() if hasattr(value, "fetchall") else value.rows()))
    else:
        exec(compile(ast.Module([each], []), "page", "exec"), names)
kept = {name: names[name] for name in ("last", "counts") if name in names}
if kept:
    found.append(kept["last"]["revision"].to_list())
    found.append(kept["counts"])
print(json.dumps(found))
"""


def run(text: str, folder: Path) -> Any:
    """What the code of a page has found, with both tools beside what is installed here."""
    (tools,) = require(REPOSITORY / ".interop" / "tables" / "lib").glob("python*/site-packages")
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(tools)])}
    done = subprocess.run(
        command, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_both_read_a_typed_table(plant: Path) -> None:
    (table,) = [text for words, text in blocks("python") if not words.strip()]
    (tools,) = [text for words, text in blocks("python") if words.split() == ["duckdb", "polars"]]
    hottest = [["lathe", 72.0], ["press", 65.5]]
    assert run(table + tools, plant) == [hottest, hottest]


def test_both_read_the_lake(tmp_path: Path) -> None:
    with closing(World(tmp_path / "penstock-data")) as world:
        world.fill(300, entities=5)
        for stop in (101, 201, 301):
            world.move(stop)
        summarize(world.lake)
    (text,) = [text for words, text in code(HISTORY, "python") if words.split() == ["polars", "duckdb"]]
    last, counts = run(text.replace(ITEM, HERE), tmp_path)
    assert last == [56, 57, 58, 59, 60]
    assert sorted(counts) == [[f"item-{number}", 60] for number in range(5)]
