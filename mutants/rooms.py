"""Where faults are planted, and which tests stand nearest to each place.

A test folder is near when it mirrors the source or proves the same rules; the whole suite is not asked.
"""

from __future__ import annotations

from pathlib import Path

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
    "twins": ("tests/twins", "tests/conformance/ditto"),
    "exchange": ("tests/exchange", "tests/doors/tlex", "tests/conformance/tlex"),
    "journal": ("tests/journal", "tests/history"),
}


def sources(room: str) -> list[Path]:
    """The files of a room, below the root of the project."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / PACKAGE / room).rglob("*.py"))


def nearest(source: Path) -> list[str]:
    """The test files to run, those named after the source first and then those that import it: it is soon caught."""
    place = source.relative_to(PACKAGE).as_posix()
    longest = max((prefix for prefix in NEAREST if place.startswith(f"{prefix}/")), key=len)
    module = ".".join(source.with_suffix("").parts[1:])

    def distance(path: Path) -> tuple[int, int]:
        named = source.stem in path.stem
        return 0 if named else 1 if f"{module} " in path.read_text() else 2, path.stat().st_size

    found: dict[Path, None] = {}
    for folder in NEAREST[longest]:
        # A file is near as it is; of a folder all test files below it.
        paths = [ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("test_*.py")
        found |= dict.fromkeys(sorted(paths))
    return [path.relative_to(ROOT).as_posix() for path in sorted(found, key=distance)]
