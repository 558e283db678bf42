"""All builds do the same, to the byte. That it is right is told by the tests of kernel and wire, in all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import zip_longest

import pytest

from penstock.build.choice import COMPILED, INTERPRETED, MYPYC, VARIABLE
from penstock.build.compiler import Impossible, check, compile_sources

pytestmark = pytest.mark.timeout(300)

# Lines that a record has at the least: one that is shorter has not tried much.
LEAST = {"kernel": 4_000, "wire": 5_000}


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    try:
        check()
    except Impossible as lack:
        pytest.skip(f"nothing to compare with: {lack}")
    compile_sources(2)


def record(room: str, build: str) -> list[str]:
    command = [sys.executable, "-m", "tests.build.record", room]
    environment = os.environ | {VARIABLE: build, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("room", ["kernel", "wire"])
def test_all_builds_send_and_understand_the_same(room: str) -> None:
    interpreted = record(room, INTERPRETED)
    assert len(interpreted) > LEAST[room]
    for build in (MYPYC, COMPILED):
        for number, (one, other) in enumerate(zip_longest(interpreted, record(room, build)), start=1):
            assert one == other, f"line {number}, {build}"
