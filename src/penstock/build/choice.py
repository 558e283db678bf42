"""Which build of the kernel and the wire this process runs: the compiled one, if there is one of exactly these sources.

It is kept outside the package, in a folder named after a digest of the sources: after an edit the edited sources run,
never an outdated build. A wheel may bring one along inside the package. How it is made is in `compiler`.
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

# The environment variable that overrides the choice, and its values.
VARIABLE = "PENSTOCK_BUILD"
COMPILED = "compiled"
# Without what is written in C: for tests.
MYPYC = "mypyc"
INTERPRETED = "interpreted"

ROOMS = ("kernel", "wire")
# Of another room: the rules for every event between a hub and its edges.
BESIDE = ("cluster/derived.py", "cluster/owner.py", "cluster/reader.py")
PACKAGE = Path(__file__).parents[1]
# The compiled build also depends on the program that makes it.
RECIPE = Path("build", "extensions.py")
NATIVE = Path("build", "native.c")

# The suffix of the libraries into which mypyc puts the code of several modules.
LIBRARY = "__mypyc"
# The module that is written in C.
EXTENSION = "penstock_native"

_PREFIXES = tuple(f"{PACKAGE.name}.{room}." for room in (*ROOMS, *{path.partition("/")[0] for path in BESIDE}))
# Names interpreter, version and machine, as in ".cpython-311-x86_64-linux-gnu.so".
_SUFFIX = EXTENSION_SUFFIXES[0]


class Build(NamedTuple):
    """Which build runs, and why it is not the compiled one."""

    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}, {self.reason}" if self.reason else self.name


class CompiledFinder:
    """Finds the modules of the compiled build; all others are left to the next finder."""

    def __init__(self, folder: Path, native: bool = True) -> None:
        self._folder = folder
        self._native = native

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == EXTENSION:
            if not self._native:
                return None
        elif not fullname.startswith(_PREFIXES) and not fullname.endswith(LIBRARY):
            return None
        file = self._folder.joinpath(*fullname.split(".")).with_suffix(_SUFFIX)
        return spec_from_file_location(fullname, file) if file.exists() else None


def sources(package: Path = PACKAGE) -> list[Path]:
    """The files that the compiled build is made from, in a fixed order, below the package."""
    found = [path.relative_to(package) for room in ROOMS for path in (package / room).rglob("*.py")]
    return [*sorted(found), *map(Path, BESIDE), RECIPE, NATIVE]


def digest(package: Path = PACKAGE) -> str:
    """A digest of the sources as they are now."""
    found = blake2b(digest_size=16)
    for path in sources(package):
        content = (package / path).read_bytes()
        found.update(f"{path} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def shelf() -> Path:
    """Where compiled builds for this interpreter are kept: in its environment, because sources may be read-only."""
    return Path(sys.prefix) / "lib" / "penstock" / _SUFFIX.strip(".").rpartition(".")[0]


def packed(package: Path = PACKAGE) -> Path:
    """Where a wheel has the build that it brings along (scripts/build_hook.py)."""
    return package / "build" / "packed" / shelf().name


def choose() -> Build:
    """Choose a build; if it is the compiled one, its modules are found from now on."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", COMPILED, MYPYC, INTERPRETED):
        raise ImportError(f"{VARIABLE}={wanted}: expected {COMPILED}, {MYPYC}, {INTERPRETED} or nothing")
    if wanted == INTERPRETED:
        return Build(INTERPRETED, f"as {VARIABLE} says")
    places = [place for place in (packed(), shelf()) if place.exists()]
    name = digest() if places else ""
    for place in places:
        if (place / name).exists():
            sys.meta_path.insert(0, CompiledFinder(place / name, wanted != MYPYC))
            return Build(MYPYC, f"as {VARIABLE} says") if wanted == MYPYC else Build(COMPILED)
    reason = f"because {'the sources have changed since' if places else 'none has been compiled'}: penstock compile"
    if wanted in (COMPILED, MYPYC):
        raise ImportError(f"{VARIABLE}={wanted}, but there is no such build, {reason}")
    return Build(INTERPRETED, reason)
