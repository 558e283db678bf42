"""Makes the compiled build: mypyc and the C compiler run on a copy of the sources, and the result goes to the shelf.

What is compiled, and how, is in `extensions`, which runs in a process of its own; which build runs, in `choice`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from penstock.build.choice import PACKAGE, RECIPE, digest, shelf, sources

# Builds that stay on the shelf, the latest first: a process may still be about to import from the one before.
KEPT = 3

# How much of the tools' output an error repeats, from its end.
MAX_ECHO = 4_000


class Impossible(Exception):
    """Something that compiling needs is missing; the text says what, and how to get it."""


class CompileError(Exception):
    """The tools have failed; the text is their output."""


def check() -> None:
    """Raise Impossible unless everything that compiling needs is there."""
    if find_spec("mypyc") is None or find_spec("setuptools") is None:
        raise Impossible("mypy and setuptools are not installed: pip install 'penstock[compiled]'")
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(shlex.split(command)[0]) is None:
        raise Impossible(f"there is no C compiler: {command} is not found")
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        raise Impossible(f"Python's headers are not installed: {header} is not found")


def compile_sources(
    jobs: int, package: Path = PACKAGE, place: Path | None = None, begin: Callable[[], None] = lambda: None
) -> Path:
    """The folder with the build of the sources as they are now; raises one of the errors above.

    If it is missing, it is made: `begin` is called before, because that takes a minute.
    """
    place = place or shelf()
    folder = place / digest(package)
    if folder.exists():
        return folder
    check()
    begin()
    try:
        place.mkdir(parents=True, exist_ok=True)
        # On the shelf from the beginning, so that the finished build appears there in one move.
        with tempfile.TemporaryDirectory(dir=place, prefix=".") as work:
            return _make(Path(work), jobs, package, place)
    except OSError as error:
        raise Impossible(f"{place} cannot be written: {error.strerror or error}") from error


def _make(work: Path, jobs: int, package: Path, place: Path) -> Path:
    copy = work / PACKAGE.name
    for path in (Path("__init__.py"), Path("py.typed"), *sources(package)):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package / path, copy / path)
    # The digest of the copy: somebody may be editing the sources.
    folder = place / digest(copy)
    # -P: no file of the copy must be mistaken for a module that the program imports.
    command = [sys.executable, "-P", str(copy / RECIPE), "built", str(jobs)]
    done = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise CompileError(done.stdout[-MAX_ECHO:])
    if not folder.exists():  # another process may have been faster
        (work / "built").rename(folder)
    _tidy(place)
    return folder


def _tidy(place: Path) -> None:
    folders = [folder for folder in place.iterdir() if not folder.name.startswith(".")]
    for folder in sorted(folders, key=lambda folder: folder.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
