"""What is logged in a program of one's own, which may have set up its logs or not."""

from __future__ import annotations

import re
import subprocess
import sys

PROGRAM = """
import logging
from penstock import log
{first}
ours = log.get("penstock.pipeline.outlet")
ours.info("batch sent", rows=3)
ours.warning("request failed; retrying", server="http://127.0.0.1:1", token="abc", problem="it is away")
"""


def told(first: str) -> list[str]:
    command = [sys.executable, "-c", PROGRAM.format(first=first)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_program_that_sets_up_no_logs_is_told_why_as_well() -> None:
    (line,) = told("")
    assert re.fullmatch(
        r"[\d-]+T[\d:.]+Z WARN  penstock\.pipeline\.outlet request failed; retrying server=http://127\.0\.0\.1:1"
        r' token=\*\*\* problem="it is away"',
        line,
    )


def test_a_program_that_has_logs_of_its_own_gets_records_there_and_nowhere_else() -> None:
    own = "logging.basicConfig(format='%(name)s: %(message)s: %(fields)s')"
    (line,) = told(own)
    assert line.startswith("penstock.pipeline.outlet: request failed; retrying: {'server': 'http://127.0.0.1:1', ")


def test_a_program_that_wants_no_line_of_libraries_gets_none() -> None:
    assert told("logging.lastResort = None") == []
