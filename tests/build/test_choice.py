from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import penstock
from penstock.build.choice import PACKAGE, VARIABLE, Build, CompiledFinder, digest, shelf, sources
from tests.support.process import ServerProcess

EXPRESSION = "import penstock, penstock.kernel.timers as timers; print(penstock.BUILD); print(timers.__file__)"


def run(package: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process says of its build that finds the package in this folder."""
    variables = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", EXPRESSION],
        env={**variables, "PYTHONPATH": str(package.parent), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package at another place."""
    return shutil.copytree(PACKAGE, tmp_path / "penstock", ignore=shutil.ignore_patterns("__pycache__", "pages"))


@pytest.fixture
def shelved() -> Path:
    """A build of the sources as they are."""
    folder = shelf() / digest()
    if not folder.exists():
        pytest.skip(f"there is no compiled build: {penstock.BUILD}")
    return folder


# -- the choice ----------------------------------------------------------------------------------------------------


def test_a_build_of_these_very_sources_runs(copy: Path, shelved: Path) -> None:
    build, file = run(copy).stdout.splitlines()
    assert build == "compiled"
    assert Path(file).is_relative_to(shelved)


def test_a_source_that_has_been_edited_runs_as_it_is_written(copy: Path, shelved: Path) -> None:
    with (copy / "kernel" / "timers.py").open("a") as source:
        source.write("# edited\n")
    build, file = run(copy).stdout.splitlines()
    assert build == "interpreted, because the sources have changed since: penstock compile"
    assert Path(file) == copy / "kernel" / "timers.py"


def test_the_variable_chooses_the_interpreted_build(copy: Path) -> None:
    build, file = run(copy, PENSTOCK_BUILD="interpreted").stdout.splitlines()
    assert build == "interpreted, as PENSTOCK_BUILD says"
    assert Path(file) == copy / "kernel" / "timers.py"


@pytest.mark.parametrize(("build", "module"), [("mypyc", "penstock.kernel.rows"), ("compiled", "penstock_native")])
def test_the_variable_chooses_whether_what_is_written_in_c_runs(
    copy: Path, shelved: Path, build: str, module: str
) -> None:
    command = "from penstock.kernel import quick, timers; print(quick.pick.__module__, timers.__file__)"
    environment = os.environ | {"PENSTOCK_BUILD": build, "PYTHONPATH": str(copy.parent)}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True)
    found, file = done.stdout.split()
    assert found == module
    assert Path(file).is_relative_to(shelved)


def test_a_compiled_build_that_is_demanded_and_not_there_is_an_error(copy: Path) -> None:
    (copy / "wire" / "another.py").touch()
    done = run(copy, PENSTOCK_BUILD="compiled")
    assert done.returncode == 1
    assert "ImportError: PENSTOCK_BUILD=compiled, but there is no such build, because " in done.stderr


def test_a_word_that_the_variable_does_not_know_is_an_error(copy: Path) -> None:
    done = run(copy, PENSTOCK_BUILD="fast")
    assert done.returncode == 1
    assert "ImportError: PENSTOCK_BUILD=fast: expected compiled, mypyc, interpreted or nothing" in done.stderr


# -- the digest ----------------------------------------------------------------------------------------------------


def test_the_digest_is_that_of_the_contents_wherever_they_are(copy: Path) -> None:
    assert digest(copy) == digest()


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename", "beside", "recipe"])
def test_every_change_of_a_source_changes_the_digest(copy: Path, change: str) -> None:
    file = copy / "wire" / "numbers.py"
    if change == "edit":
        file.write_text(file.read_text().replace("6f", "7f"))
    elif change == "add":
        (copy / "kernel" / "another.py").touch()
    elif change == "remove":
        file.unlink()
    elif change == "rename":
        file.rename(file.with_name("figures.py"))
    elif change == "beside":
        (copy / "cluster" / "reader.py").write_text("")
    else:
        (copy / "build" / "extensions.py").write_text("")
    assert digest(copy) != digest()


def test_other_rooms_do_not_count(copy: Path) -> None:
    (copy / "server.py").write_text("")
    (copy / "cluster" / "supervisor.py").write_text("")
    assert digest(copy) == digest()


def test_the_sources_are_those_of_kernel_and_wire_some_of_clusters_and_the_recipe() -> None:
    rooms = {path.parts[0] for path in sources()}
    assert rooms == {"kernel", "wire", "cluster", "build"}
    assert {path.name for path in sources() if path.parts[0] == "cluster"} == {"derived.py", "owner.py", "reader.py"}
    assert Path("kernel", "view.py") in sources()
    assert Path("wire", "tlcp", "values.py") in sources()


# -- the finder ----------------------------------------------------------------------------------------------------


def test_the_finder_finds_what_is_there_and_leaves_everything_else(tmp_path: Path) -> None:
    suffix = EXTENSION_SUFFIXES[0]
    for name in ("penstock/kernel/view", "penstock/server", "penstock_kernel__mypyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}{suffix}").touch()
    finder = CompiledFinder(tmp_path)
    found = finder.find_spec("penstock.kernel.view", None)
    assert found is not None
    assert found.origin == str(tmp_path / f"penstock/kernel/view{suffix}")
    assert finder.find_spec("penstock_kernel__mypyc", None) is not None
    for name in ("penstock.kernel", "penstock.kernel.lane", "penstock.server", "other__mypyc", "json"):
        assert finder.find_spec(name, None) is None


# -- who is told ---------------------------------------------------------------------------------------------------


def test_a_build_says_what_it_is_and_why() -> None:
    assert str(Build("compiled")) == "compiled"
    assert str(Build("interpreted", "for a reason")) == "interpreted, for a reason"


def test_the_server_says_which_build_it_runs(process: ServerProcess) -> None:
    assert f"build={penstock.BUILD.name}" in process.log.replace('"', "")
