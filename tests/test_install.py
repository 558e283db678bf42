"""The package as users get it: a wheel in a clean environment, away from the repository, with and without extras.

Environments with the large extras, with other Pythons, and compiled wheels are for `make test-install`.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import pytest

from tests.support.process import READY

ROOT = Path(__file__).parents[1]
MEGABYTE = 1_000_000

# Megabytes that an environment with the package and nothing else may take, Python itself not counted.
CORE_LIMIT = 150

# For installing from a package index on a busy machine.
PATIENCE = 600

# What each extra brings: a module that is there then, and the words of a command that shows that it is used.
EXTRAS = {
    "journal": "pyarrow",
    "twins": "pyarrow",
    "tlex": "pyarrow",
    "lake": "deltalake",
    "postgres": "psycopg",
    "push": "hpack",
    "cluster": "nats",
    "kafka": "confluent_kafka",
    "nats": "nats",
    "compiled": "mypyc",
    "spark": "pyspark",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sources as they are, for any Python."""
    return build(tmp_path_factory.mktemp("wheel"), sys.executable)


def build(folder: Path, python: str, **environment: str) -> Path:
    command = [python, "-W", "ignore", "-c", f"import hatchling.build as it; print(it.build_wheel({str(folder)!r}))"]
    variables = os.environ | environment
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def uv(*arguments: str | Path) -> str:
    """What it told."""
    done = subprocess.run(
        ["scripts/uv.sh", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


class Environment:
    """A clean one, with nothing but the package, in the versions that are tested."""

    def __init__(self, place: Path, wheel: Path, extra: str = "", python: str = sys.executable) -> None:
        self.place = place
        uv("venv", "--quiet", "--python", python, place)
        wanted = f"penstock{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
        constraints = ("--constraint", "requirements/dev.txt", "--build-constraints", "requirements/build.txt")
        uv("pip", "install", "--quiet", "--python", self.bin / "python", *constraints, wanted)

    @property
    def bin(self) -> Path:
        return self.place / "bin"

    def megabytes(self) -> float:
        """As `du --apparent-size` has it: what is on the disk may be shared with uv's cache."""
        return sum(path.lstat().st_size for path in (self.place / "lib").rglob("*") if path.is_file()) / MEGABYTE

    def run(self, *command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd,
            env=clean() | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


def clean() -> dict[str, str]:
    """Nothing of this repository in the variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK", "PYTHON", "VIRTUAL"))}


@contextmanager
def served(environment: Environment, cwd: Path, *arguments: str) -> Iterator[tuple[str, str, str]]:
    """A server as a user starts it: what it prints until it is ready, and the addresses of its two ports."""
    command = [str(environment.bin / "penstock"), *arguments, "--port", "0", "--api-port", "0"]
    with (cwd / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=cwd, env=clean(), stdout=subprocess.PIPE, stderr=log, text=True)
    with process:
        try:
            assert process.stdout is not None
            lines = list(takewhile_ready(process.stdout))
            found = READY.match(lines[-1]) if lines else None
            assert found is not None, f"it did not get ready: {''.join(lines)}{(cwd / 'log').read_text()}"
            yield "".join(lines), f"http://{found[1]}:{found[2]}", f"http://{found[1]}:{found[4]}"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()


def takewhile_ready(output: IO[str]) -> Iterator[str]:
    """The lines up to the one that says that it is ready."""
    for line in iter(output.readline, ""):
        yield line
        if READY.match(line):
            return


def text(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def check_demo(environment: Environment, cwd: Path, *, has_journal: bool) -> None:
    """The page, its scripts, prices over TLCP, and twins if there is a journal."""
    with served(environment, cwd, "demo", "--no-pipeline") as (said, stream, api):
        assert ("the extra journal is not installed" in said) != has_journal
        page = text(f"{stream}/")
        assert "<title>" in page
        script = page.partition('src="')[2].partition('"')[0]
        assert len(text(f"{stream}/{script.lstrip('./')}")) > 1000
        done = environment.run(
            *("penstock", "watch", "WELCOME", "item1", "--adapter", "STOCKS", "--fields", "stock_name last_price"),
            *("--count", "1", "--json", "--url", stream),
            cwd=cwd,
        )
        assert '"stock_name": "Anduct"' in done.stdout, done.stderr
        assert "penstock_sessions" in text(f"{api}/metrics")
        assert (cwd / "penstock-data" / "journal").is_dir() == has_journal


def test_the_core_is_small_and_serves_the_demo(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment", wheel)
    size = environment.megabytes()
    print(f"{size:.0f} MB without extras")
    assert size < CORE_LIMIT
    done = environment.run("penstock", "--version", cwd=tmp_path)
    assert done.stdout == "penstock 0.1.0 (interpreted, because none has been compiled: penstock compile)\n"
    check_demo(environment, tmp_path, has_journal=False)


@pytest.mark.install_long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("extra", EXTRAS)
def test_a_clean_environment_with_an_extra_has_what_it_brings_and_serves(
    extra: str, wheel: Path, tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "environment", wheel, extra)
    print(f"{extra}: {environment.megabytes():.0f} MB")
    done = environment.run("python", "-c", f"import {EXTRAS[extra]}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    has_journal = environment.run("python", "-c", "import pyarrow", cwd=tmp_path).returncode == 0
    check_demo(environment, tmp_path, has_journal=has_journal)


def pythons() -> list[str]:
    """Those of this machine that the package is for, other than the one that runs the tests."""
    done = subprocess.run(["scripts/pythons.sh"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.install_long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("python", pythons())
def test_a_compiled_wheel_runs_compiled_on_its_python(python: str, tmp_path: Path) -> None:
    builder = tmp_path / "builder"
    uv("venv", "--quiet", "--python", python, builder)
    uv(
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "--python",
        builder / "bin/python",
        "-r",
        "requirements/wheels.txt",
    )
    made = build(tmp_path, str(builder / "bin" / "python"), PENSTOCK_BUILD="interpreted", PENSTOCK_WHEEL="compiled")
    version = subprocess.check_output([python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"], text=True)
    assert f"-{version.strip()}-{version.strip()}-" in made.name
    environment = Environment(tmp_path / "environment", made, "journal", python)
    done = environment.run("penstock", "--version", cwd=tmp_path)
    assert done.stdout == "penstock 0.1.0 (compiled)\n", done.stderr
    check_demo(environment, tmp_path, has_journal=True)


@pytest.mark.install_long
def test_uvx_shows_the_demo_within_five_seconds_of_a_warm_cache(wheel: Path, tmp_path: Path) -> None:
    """`uvx penstock demo`, with the wheel in place of the package's name.

    Of processor time, which is what it takes on a machine with nothing else to do.
    """
    command = [
        "tool",
        "run",
        "--from",
        str(wheel),
        "penstock",
        "demo",
        "--no-pipeline",
        "--port",
        "0",
        "--api-port",
        "0",
    ]
    seconds, processor = [], []
    for _ in range(2):
        begun, before = time.monotonic(), children_seconds()
        process = subprocess.Popen(
            [str(ROOT / "scripts" / "uv.sh"), *command],
            cwd=ROOT,
            env=clean(),
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert any(READY.match(line) for line in iter(process.stdout.readline, ""))
            seconds.append(time.monotonic() - begun)
            process.send_signal(signal.SIGINT)
        processor.append(children_seconds() - before)
    print(f"first {seconds[0]:.1f} s, from a warm cache {seconds[1]:.1f} s")
    print(f"processor: first {processor[0]:.1f} s, from a warm cache {processor[1]:.1f} s")
    assert processor[1] < 5


def children_seconds() -> float:
    """Of the processor, by processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """What was compiled before, by another test or by hand, would be packed without a compiler."""
    made, aside = ROOT / "build" / "packed", ROOT / "build" / "packed-aside"
    if made.exists():
        made.rename(aside)
    yield
    if aside.exists():
        shutil.rmtree(made, ignore_errors=True)
        aside.rename(made)


@pytest.mark.install_long
@pytest.mark.usefixtures("nothing_compiled")
def test_a_python_without_a_compiler_gets_the_wheel_for_any(tmp_path: Path) -> None:
    """scripts/wheels.sh says so and goes on."""
    environment = clean() | {"CC": "no-such-compiler"}
    done = subprocess.run(
        ["scripts/wheels.sh", str(tmp_path), sys.executable],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "gets the wheel for any Python, because: " in done.stderr
    assert "there is no C compiler: no-such-compiler is not found" in done.stderr
    assert {path.suffix for path in tmp_path.iterdir()} == {".gz", ".whl"}
    assert shutil.which("no-such-compiler") is None
