"""Source, sink, tables and SQL once more under Spark Connect.

In a process of its own: one cannot hold both kinds of session.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.conftest import CONNECT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

# Each asks for nothing that only classic Spark has.
FILES = [
    "test_source_spark.py",
    "test_sink.py",
    "test_publish.py",
    "test_live_queries.py",
    "test_typed_tables.py",
    "test_sql_page.py",
    "jobs/test_candles.py",
]


@pytest.mark.spark_long
@pytest.mark.spark
@pytest.mark.timeout(1_800)
def test_the_same_under_spark_connect() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "spark",
            *(str(HERE / n) for n in FILES),
        ],
        cwd=ROOT,
        env={**os.environ, CONNECT: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    # None is left out: neither a file nor, quietly, a test.
    (passed, rest) = re.findall(r"^(\d+) passed(.*) in ", done.stdout, re.MULTILINE)[-1]
    assert int(passed) >= 60
    assert "skipped" not in rest
