"""Source and sink once more under Spark Connect, in a process of its own: one cannot hold both kinds of session."""

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
FILES = ["test_source_spark.py"]


@pytest.mark.spark_long
@pytest.mark.spark
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", FILES)
def test_the_same_under_spark_connect(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / name)],
        cwd=ROOT,
        env={**os.environ, CONNECT: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    (line,) = re.findall(r"^(\d+) passed.*in ", done.stdout, re.MULTILINE)
    assert int(line) >= 2
