"""Where peers are installed, in `bench/.build`: Python environments, Go programs, npm packages, unpacked Debian ones.

Nothing outside that directory is changed. What is there already is not fetched again.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from bench.rig.build import BUILD, Unavailable, run


def python(name: str, *requirements: str) -> Path:
    """The interpreter of an environment with these packages."""
    place = BUILD / "python" / name
    interpreter = place / "bin" / "python"
    stamp = place / ".requirements"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        run([sys.executable, "-m", "venv", "--clear", str(place)])
        run([str(interpreter), "-m", "pip", "install", "--quiet", *requirements])
        stamp.write_text(wanted)
    return interpreter


def version_of(interpreter: Path) -> str:
    return run([str(interpreter), "--version"])


def go_program(module: str, version: str) -> Path:
    """A command built from its Go module."""
    name = re.sub(r"/v\d+$", "", module).rpartition("/")[2]
    place = BUILD / "go" / f"{name}-{version}"
    if not (place / name).exists():
        go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
        if go is None:
            raise Unavailable("there is no Go (go)")
        run([go, "install", f"{module}@{version}"], environment={"GOBIN": str(place), "GOFLAGS": "-mod=mod"})
    return place / name


def npm_package(name: str, version: str) -> Path:
    """The directory in whose `node_modules` it is."""
    place = BUILD / "npm" / f"{name}-{version}"
    if not (place / "node_modules" / name).exists():
        if shutil.which("npm") is None or shutil.which("node") is None:
            raise Unavailable("there is no Node.js (node, npm)")
        place.mkdir(parents=True, exist_ok=True)
        run(
            [
                "npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
                "--prefix",
                str(place),
                f"{name}@{version}",
            ]
        )
    return place


def debian_program(name: str, packages: Sequence[str]) -> tuple[Path, dict[str, str]]:
    """A program out of Debian packages, unpacked and not installed, and the environment that finds its libraries."""
    place = BUILD / "debian" / name
    if not place.exists():
        if shutil.which("apt-get") is None:
            raise Unavailable("there is no apt-get")
        fetched = BUILD / "debian" / f"{name}.packages"
        fetched.mkdir(parents=True, exist_ok=True)
        run(["apt-get", "download", "--quiet", *packages], directory=fetched)
        unpacked = place.with_suffix(".new")
        for package in fetched.glob("*.deb"):
            run(["dpkg", "--extract", str(package), str(unpacked)])
        unpacked.rename(place)
    libraries = sorted({str(path.parent) for path in place.rglob("*.so*")})
    environment = {"LD_LIBRARY_PATH": ":".join(libraries)}
    (program,) = [path for folder in ("usr/bin", "usr/sbin") for path in (place / folder).glob(name)]
    missing = [
        line.strip() for line in run(["ldd", str(program)], environment=environment).splitlines() if "not found" in line
    ]
    if missing:
        raise Unavailable(f"{name} lacks {', '.join(missing)}")
    return program, environment


def debian_version(program: Path, package: str) -> str:
    """Of an unpacked program, from the name of the package's file."""
    (file,) = (BUILD / "debian" / f"{program.name}.packages").glob(f"{package}_*.deb")
    return unquote(file.name.split("_")[1])
