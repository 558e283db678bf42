"""Files of a checkpoint in an object store: one that must be new is, whoever else writes it, and whatever fails.

Read next: `test_checkpoints`, where Spark writes them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.s3a.connector import ROOT
from tests.support.object_store import BUCKET, ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.spark_long, pytest.mark.timeout(400)]


def test_a_file_that_must_be_new_is_refused_by_the_store_and_one_whose_answer_was_lost_is_known_again(
    tmp_path: Path,
) -> None:
    with ObjectStore() as store:
        done = subprocess.run(
            [sys.executable, "-m", "tests.pipeline.s3a.driver", str(store.port), f"s3a://{BUCKET}/files", tmp_path],
            cwd=ROOT,
            env={**os.environ, **store.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4_000:]
    refused = "org.apache.hadoop.fs.FileAlreadyExistsException"
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "two": ["done", refused, "of the second"],
        "again": [refused, "of the second"],
        "lost": ["done", "once", []],
        "503": ["done", "once", []],
        "left": [False, False],
        "state": ["done", "done", "2"],
        "names": ["503", "lost", "offsets", "state"],
    }
