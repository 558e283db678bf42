from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.build.choice import PACKAGE, RECIPE, VARIABLE, digest
from penstock.build.compiler import KEPT, CompileError, Impossible, check, compile_sources

# Stand in for mypyc and the C compiler, which take a minute; the real recipe is run by `make compiled` and `test_same`.
QUICK = """
import pathlib, sys
pathlib.Path(sys.argv[1]).mkdir()
pathlib.Path(sys.argv[1], "made").write_text(sys.argv[2])
"""
BROKEN = """
import sys
print("view.py:7: not to be compiled")
sys.exit(1)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with a recipe that is quick."""
    copy = shutil.copytree(PACKAGE, tmp_path / "penstock", ignore=shutil.ignore_patterns("__pycache__", "pages"))
    (copy / RECIPE).write_text(QUICK)
    return copy


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A shelf that is not there yet."""
    return tmp_path / "lib" / "shelf"


def test_a_build_is_put_on_the_shelf_under_the_digest_of_its_sources(package: Path, place: Path) -> None:
    folder = compile_sources(3, package, place)
    assert folder == place / digest(package)
    assert (folder / "made").read_text() == "3"
    assert list(place.iterdir()) == [folder]


def test_a_build_that_is_there_is_not_made_again(package: Path, place: Path) -> None:
    folder = compile_sources(3, package, place)
    assert compile_sources(4, package, place) == folder
    assert (folder / "made").read_text() == "3"


def test_a_build_is_announced_before_it_is_made_and_only_then(package: Path, place: Path) -> None:
    announced: list[bool] = []

    def begin() -> None:
        announced.append(place.exists())

    compile_sources(1, package, place, begin)
    compile_sources(1, package, place, begin)
    assert announced == [False]


def test_the_latest_builds_stay_on_the_shelf(package: Path, place: Path) -> None:
    made = []
    for number in range(KEPT + 2):
        (package / "kernel" / "limits.py").write_text(f"# {number}\n")
        made.append(compile_sources(1, package, place))
        os.utime(made[-1], (number, number))
    assert sorted(place.iterdir()) == sorted(made[-KEPT:])


def test_what_the_tools_say_when_they_fail_is_passed_on_and_nothing_is_left(package: Path, place: Path) -> None:
    (package / RECIPE).write_text(BROKEN)
    with pytest.raises(CompileError, match=r"view\.py:7: not to be compiled"):
        compile_sources(1, package, place)
    assert list(place.iterdir()) == []


def test_a_shelf_that_cannot_be_written_is_named(package: Path, place: Path) -> None:
    place.parent.touch()
    with pytest.raises(Impossible, match=rf"{place} cannot be written: "):
        compile_sources(1, package, place)


def test_a_compiler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -pthread")
    with pytest.raises(Impossible, match="there is no C compiler: no-such-compiler -pthread is not found"):
        check()


@pytest.mark.parametrize(("options", "code"), [((), 1), (("--optional",), 0)])
def test_without_a_compiler_the_command_says_so(package: Path, options: tuple[str, ...], code: int) -> None:
    variables = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "compile", *options],
        env={**variables, "PYTHONPATH": str(package.parent), "CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == (
        "penstock: the server runs interpreted because there is no C compiler: no-such-compiler is not found\n"
    )
