"""Which build of the kernel and the wire this process runs: the compiled one, if there is one of these very sources.

It is kept outside the package, in a folder named after a digest of the sources: who edits one of them runs what is
written there, never what was once compiled. How it is made is in `compiler`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

# The environment variable that decides, where it is not to be decided here, and what it may say.
VARIABLE = "PENSTOCK_BUILD"
COMPILED = "compiled"
INTERPRETED = "interpreted"

ROOMS = ("kernel", "wire")
PACKAGE = Path(__file__).parents[1]
# What else decides how the compiled build comes out: the program that makes it.
RECIPE = Path("build", "extensions.py")

# Ends the names of the libraries that mypyc puts the code of several modules into.
LIBRARY = "__mypyc"

_PREFIXES = tuple(f"{PACKAGE.name}.{room}." for room in ROOMS)
# Names interpreter, version and machine, as in ".cpython-311-x86_64-linux-gnu.so".
_SUFFIX = EXTENSION_SUFFIXES[0]


class Build(NamedTuple):
    """What runs, and why it is not the compiled one."""

    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}, {self.reason}" if self.reason else self.name


class CompiledFinder:
    """Finds the modules of the compiled build; all others are left to those who come after it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIXES) and not fullname.endswith(LIBRARY):
            return None
        file = self._folder.joinpath(*fullname.split(".")).with_suffix(_SUFFIX)
        return spec_from_file_location(fullname, file) if file.exists() else None


def sources(package: Path = PACKAGE) -> list[Path]:
    """The files that the compiled build is made from, in a fixed order, below the package."""
    found = [path.relative_to(package) for room in ROOMS for path in (package / room).rglob("*.py")]
    return [*sorted(found), RECIPE]


def digest(package: Path = PACKAGE) -> str:
    """Names the sources as they are now: other contents, another digest."""
    found = blake2b(digest_size=16)
    for path in sources(package):
        content = (package / path).read_bytes()
        found.update(f"{path} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def shelf() -> Path:
    """Where compiled builds for this interpreter are kept: in its environment, for sources may be read-only."""
    return Path(sys.prefix) / "lib" / "penstock" / _SUFFIX.strip(".").rpartition(".")[0]


def choose() -> Build:
    """Decide, and have the modules of the compiled build found from now on if it is that."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", COMPILED, INTERPRETED):
        raise ImportError(f"{VARIABLE}={wanted}: expected {COMPILED}, {INTERPRETED} or nothing")
    if wanted == INTERPRETED:
        return Build(INTERPRETED, f"as {VARIABLE} says")
    if not shelf().exists():
        reason = "for none has been compiled: penstock compile"
    elif (folder := shelf() / digest()).exists():
        sys.meta_path.insert(0, CompiledFinder(folder))
        return Build(COMPILED)
    else:
        reason = "for the sources have changed since: penstock compile"
    if wanted == COMPILED:
        raise ImportError(f"{VARIABLE}={COMPILED}, but there is no such build, {reason}")
    return Build(INTERPRETED, reason)
