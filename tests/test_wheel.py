"""What is packaged: with the web page, or not at all. Built for real, from a copy of the sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = Path("src", "penstock", "pages")
NOT_PACKAGED = shutil.ignore_patterns("__pycache__", "node_modules", "pages")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As a fresh one: nothing of it is built."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=NOT_PACKAGED)
    return tmp_path


def build(clone: Path, call: str) -> subprocess.CompletedProcess[str]:
    """Call the build backend, as pip and uv do."""
    (clone / "out").mkdir(exist_ok=True)
    code = f"import hatchling.build as backend; print(backend.{call}('out'))"
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("call", ["build_wheel", "build_sdist"])
def test_a_package_without_the_page_is_not_built(clone: Path, call: str) -> None:
    done = build(clone, call)
    assert done.returncode != 0
    assert "src/penstock/pages/index.html is missing, because the web page is not built" in done.stderr
    assert "make page" in done.stderr
    assert list((clone / "out").iterdir()) == []


def test_a_package_with_half_of_the_page_is_not_built(clone: Path) -> None:
    (clone / PAGES).mkdir()
    shutil.copy(ROOT / PAGES / "index.html", clone / PAGES)
    done = build(clone, "build_wheel")
    assert done.returncode != 0
    assert "src/penstock/pages/assets/" in done.stderr


def test_a_package_without_the_dashboard_is_not_built(clone: Path) -> None:
    shutil.copytree(ROOT / PAGES, clone / PAGES)
    (clone / PAGES / "dashboard" / "index.html").unlink()
    done = build(clone, "build_wheel")
    assert done.returncode != 0
    assert "src/penstock/pages/dashboard/index.html is missing" in done.stderr


def test_a_wheel_has_the_page_and_so_has_one_that_is_made_from_the_source_archive(clone: Path) -> None:
    shutil.copytree(ROOT / PAGES, clone / PAGES)
    pages = {path.relative_to(clone / "src").as_posix() for path in (clone / PAGES).rglob("*") if path.is_file()}
    done = build(clone, "build_wheel")
    assert done.returncode == 0, done.stderr
    (wheel,) = (clone / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert pages <= set(archive.namelist())
    assert build(clone, "build_sdist").returncode == 0
    (sources,) = (clone / "out").glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        archive.extractall(clone / "unpacked", filter="data")
    (unpacked,) = (clone / "unpacked").iterdir()
    done = build(unpacked, "build_wheel")
    assert done.returncode == 0, done.stderr
    (wheel,) = (unpacked / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert pages <= set(archive.namelist())


def test_an_editable_install_does_not_wait_for_the_page(clone: Path) -> None:
    done = build(clone, "build_editable")
    assert done.returncode == 0, done.stderr
