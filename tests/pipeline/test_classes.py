"""The archive of Spark's classes: made once, in its own time; used afterwards; and never in the way."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from penstock.pipeline.classes import ClassArchive

PATIENCE = 60.0


@pytest.fixture
def java() -> Path:
    found = shutil.which("java")
    assert found is not None, "the tests of the pipeline need a Java on the path"
    return Path(found)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars"


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return path


def made(archive: ClassArchive, class_path: str = "x.jar") -> None:
    thread = archive.make_later(class_path, threading.Event(), after=0.0)
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_real_jvm_makes_an_archive_and_starts_with_it(tmp_path: Path, java: Path, jars: Path) -> None:
    archive = ClassArchive(tmp_path, java, jars)
    (option,) = archive.options().split()
    assert option.startswith("-XX:DumpLoadedClassList=")
    # Any class will do: one of the JDK's own, in a program without a jar.
    command = [str(java), option, "-XX:+UseSerialGC", "--version"]
    subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)
    assert archive.options(record=False) == ""
    made(archive, "")
    used = archive.options(record=False).split()
    assert used[0].startswith(f"-XX:SharedArchiveFile={tmp_path}/classes-")
    done = subprocess.run(
        [str(java), used[0], "-Xshare:on", "-XX:+UseSerialGC", "--version"],
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.suffix for path in tmp_path.glob("classes-*")) == [".jsa"]


def test_a_java_that_cannot_make_one_is_not_asked_again(tmp_path: Path, jars: Path) -> None:
    asked = tmp_path / "asked"
    archive = ClassArchive(tmp_path, script(tmp_path / "java", f"echo once >> {asked}\nexit 1"), jars)
    Path(archive.options().partition("=")[2]).write_text("java/lang/Object\njava/la")
    made(archive)
    assert archive.options() == ""
    made(archive)
    assert asked.read_text() == "once\n"


def test_one_that_is_being_made_ends_with_the_pipeline_and_leaves_nothing(tmp_path: Path, jars: Path) -> None:
    begun = tmp_path / "begun"
    archive = ClassArchive(tmp_path, script(tmp_path / "java", f"touch {begun}\nexec sleep 600"), jars)
    Path(archive.options().partition("=")[2]).write_text("java/lang/Object\njava/la")
    ending = threading.Event()
    thread = archive.make_later("x.jar", ending, after=0.0)
    while not begun.exists():
        assert thread.is_alive()
        threading.Event().wait(0.01)
    ending.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert [path.suffix for path in tmp_path.glob("classes-*")] == [".lst"]


# Of two that make one at the same time, the first writes when the second has written.
TWO = """
for word in "$@"; do
    case $word in -XX:SharedArchiveFile=*) archive=${{word#*=}} ;; esac
done
await() {{ until [ -e $1 ]; do sleep 0.01; done; }}
if mkdir {here}/first 2>/dev/null; then
    await {here}/written
    rm -f "$archive"
    echo half > "$archive"
    touch {here}/late
    exec sleep 600
fi
echo whole > "$archive"
touch {here}/written
await {here}/late
"""


def test_what_the_jvm_of_a_killed_pipeline_still_makes_is_not_taken_for_ones_own(tmp_path: Path, jars: Path) -> None:
    archive = ClassArchive(tmp_path, script(tmp_path / "java", TWO.format(here=tmp_path)), jars)
    Path(archive.options().partition("=")[2]).write_text("java/lang/Object\njava/la")
    ending = threading.Event()
    left = archive.make_later("x.jar", ending, after=0.0)
    while not (tmp_path / "first").exists():
        assert left.is_alive()
        threading.Event().wait(0.01)
    made(archive)
    (found,) = tmp_path.glob("classes-*.jsa")
    assert found.read_text() == "whole\n"
    ending.set()
    left.join(PATIENCE)
    assert not left.is_alive()
    assert list(tmp_path.glob("classes-*")) == [found]


def test_another_java_or_spark_has_another_archive_and_a_script_that_is_written_again_the_same(
    tmp_path: Path, jars: Path
) -> None:
    java = script(tmp_path / "java", "exit 0")
    first = ClassArchive(tmp_path, java, jars).options()
    java.unlink()
    script(java, "exit 0")
    assert ClassArchive(tmp_path, java, jars).options() == first
    script(java, "exit 1")
    assert ClassArchive(tmp_path, java, jars).options() != first
    script(java, "exit 0")
    own = tmp_path / "own.jar"
    assert ClassArchive(tmp_path, java, jars, own).options() == first
    own.touch()
    assert ClassArchive(tmp_path, java, jars, own).options() != first
    (jars / "spark.jar").touch()
    assert ClassArchive(tmp_path, java, jars).options() != first


def test_nothing_is_made_if_the_pipeline_ends_before(tmp_path: Path, jars: Path) -> None:
    archive = ClassArchive(tmp_path, script(tmp_path / "java", f"touch {tmp_path}/asked"), jars)
    ending = threading.Event()
    ending.set()
    archive.make_later("x.jar", ending).join(PATIENCE)
    assert not (tmp_path / "asked").exists()
