"""Where faults are planted, and which tests stand nearest to each place.

A test folder is near when it mirrors the source or proves the same rules; the whole suite is not asked.
"""

from __future__ import annotations

from pathlib import Path

from tests.fast import SLOW

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/penstock")

# Below src/penstock; the sample takes as many faults from each as from any other.
ROOMS = ("kernel", "wire", "twins", "exchange", "journal")

# By the beginning of the path below src/penstock; the longest that fits counts.
NEAREST = {
    "kernel": ("tests/kernel", "tests/recovery/test_memory.py"),
    "wire": ("tests/wire",),
    "wire/ari": ("tests/wire/ari", "tests/adapters/remote"),
    "wire/ditto": ("tests/wire/ditto", "tests/conformance/ditto"),
    "wire/text6": ("tests/wire/text6", "tests/conformance/text6"),
    "wire/tlcp": ("tests/wire/tlcp", "tests/conformance"),
    "wire/tlex": ("tests/wire/tlex", "tests/conformance/tlex"),
    "twins": (
        "tests/twins",
        "tests/doors/ditto/test_saved_state.py",
        "tests/doors/ditto/test_models.py",
        "tests/doors/ditto/test_description.py",
        "tests/conformance/ditto",
    ),
    "exchange": ("tests/exchange", "tests/doors/tlex", "tests/conformance/tlex"),
    "journal": ("tests/journal", "tests/history"),
}


def sources(room: str) -> list[Path]:
    """The files of a room, below the root of the project."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / PACKAGE / room).rglob("*.py"))


def nearest(source: Path) -> list[list[str]]:
    """The test files to run, in two lists: those named after the source and those that import it, then all others.

    Most faults are caught by the first list, and the second need not even be collected then.
    """
    place = source.relative_to(PACKAGE).as_posix()
    longest = max((prefix for prefix in NEAREST if place.startswith(f"{prefix}/")), key=len)
    module = ".".join(source.with_suffix("").parts[1:])

    def distance(path: Path) -> int:
        return 0 if source.stem in path.stem else 1 if f"{module} " in path.read_text() else 2

    found: dict[Path, int] = {}
    for folder in NEAREST[longest]:
        # A file is near as it is; of a folder all test files below it.
        paths = [ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("test_*.py")
        found |= {path: distance(path) for path in sorted(paths)}
    # What takes long comes last, and small files first, because they are quick as a rule.
    names = {path.relative_to(ROOT).as_posix(): (far, path.stat().st_size) for path, far in found.items()}
    ordered = sorted(names, key=lambda name: (name in SLOW, *names[name]))
    inner = [name for name in ordered if names[name][0] < 2]
    outer = [name for name in ordered if names[name][0] == 2]
    return [listed for listed in (inner, outer) if listed]
