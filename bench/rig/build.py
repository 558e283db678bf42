"""What the benchmarks need beyond the virtual environment: compiled or installed into `bench/.build`, once.

The programs of `bench/native` are compiled again when their source is newer. What a peer needs is said by its module.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parents[1]
BUILD = HERE / ".build"
NATIVE = HERE / "native"

COMPILER = ("cc", "-O2", "-std=gnu17", "-Wall", "-Wextra", "-Werror")
PROGRAMS = {
    "load": (("load.c", "wire.c", "decode.c", "peers.c"), ("-lssl", "-lcrypto")),
    "floor": (("floor.c",), ("-lcrypto",)),
}

# A registry that does not answer within so many seconds is taken for unreachable.
PATIENCE = 900.0


class Unavailable(Exception):
    """Something cannot be had on this machine; the text says why."""


def run(command: Sequence[str], directory: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run to its end, return what it prints; raises Unavailable with the end of its complaint."""
    variables = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(
            command, cwd=directory, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from None
    if done.returncode:
        complaint = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Unavailable(f"{' '.join([Path(command[0]).name, *command[1:4]])}: {' '.join(complaint)[:300]}")
    return done.stdout.strip()


def native(name: str) -> Path:
    """A program of `bench/native`, compiled if need be."""
    sources, libraries = PROGRAMS[name]
    program = BUILD / name
    inputs = [NATIVE / source for source in sources]
    newest = max(path.stat().st_mtime for path in [*inputs, *NATIVE.glob("*.h")])
    if not program.exists() or program.stat().st_mtime < newest:
        if shutil.which("cc") is None:
            raise Unavailable("there is no C compiler (cc)")
        BUILD.mkdir(exist_ok=True)
        run([*COMPILER, "-o", str(program), *map(str, inputs), *libraries])
    return program
