"""The Python that Spark starts its workers with: this one, by way of a launcher that lets them call back at once.

Read next: `callback`, which says why.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from penstock.pipeline import callback

_LAUNCHER = """#!/bin/sh
# A worker that Spark waits for connects first and imports afterwards. All others are started as ever.
case "${{PYTHON_WORKER_FACTORY_PORT:-}}/$1" in
  ?*/-m) exec {python} -I -S {callback} {python} "$@" ;;
esac
exec {python} "$@"
"""


def worker_python(cache: Path) -> Path:
    """What to put into PYSPARK_PYTHON before Spark starts, on a machine that runs all of it. `cache` keeps it."""
    launcher = cache.resolve() / "python"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Moved into place whole: another process may be starting it just now.
    fresh = launcher.with_name(f"python.{os.getpid()}")
    python, script = shlex.quote(sys.executable), shlex.quote(str(Path(callback.__file__).resolve()))
    fresh.write_text(_LAUNCHER.format(python=python, callback=script))
    fresh.chmod(0o700)
    fresh.replace(launcher)
    return launcher
