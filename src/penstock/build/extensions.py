"""A program that makes extension modules out of the sources in the current folder, with mypyc and a C compiler.

`python extensions.py TARGET JOBS`, called by `compiler`. It imports nothing of Penstock: the folder holds a copy.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup  # before mypyc, which looks whether it is there

from mypyc.build import mypycify  # isort: skip

# What stays as it is, and why.
_RECORDS = "records and protocols: compiling would not make them faster, and mypyc gets some of them wrong"
_CONSTANTS = "a catalogue of constants"
_CHOICE = "chooses between functions in Python and in C"
_DEEP = "recurses into documents: where interpreted code raises RecursionError, compiled code crashes the process"
LEFT_OUT = {
    "penstock/kernel/headers.py": _RECORDS,
    "penstock/kernel/ports.py": _RECORDS,
    "penstock/kernel/quick.py": _CHOICE,
    "penstock/wire/ari/packets.py": "an enumeration whose members are made by a method, which mypyc does not support",
    "penstock/wire/ari/requests.py": _RECORDS,
    "penstock/wire/ditto": _DEEP,
    "penstock/wire/fabric": _RECORDS,
    "penstock/wire/quick.py": _CHOICE,
    "penstock/wire/tlcp/errors.py": _CONSTANTS,
    "penstock/wire/tlcp/jsondiff.py": _DEEP,
    "penstock/wire/tlex/administration.py": _RECORDS,
    "penstock/wire/tlex/datagrams.py": _RECORDS,
    "penstock/wire/tlex/rest.py": _RECORDS,
    "penstock/wire/tlex/templates.py": _RECORDS,
    "penstock/wire/tlex/vocabulary.py": _RECORDS,
}

# Each becomes one library. They do not call each other, and two of about the same size keep two cores busy.
GROUPS = ("kernel", "wire")

# What goes into the library of a group because it calls it: the rules for every event between a hub and its edges.
BESIDE = {"kernel": ("penstock/cluster/derived.py", "penstock/cluster/owner.py", "penstock/cluster/reader.py")}

# What is written in C from the start.
NATIVE = ("penstock_native", "penstock/build/native.c")

# The types have been checked by `make lint`; here they only have to be known.
TYPES = ("--config-file=", "--follow-imports=silent", "--ignore-missing-imports", "--explicit-package-bases")


def chosen(folder: Path) -> list[str]:
    """The files below a folder that are compiled; those that make it a package hold nothing."""
    found = [str(path) for path in folder.rglob("*.py") if path.name != "__init__.py"]
    return sorted(path for path in found if not path.startswith(tuple(LEFT_OUT)))


def main(target: str, jobs: str) -> None:
    groups: list[tuple[list[str], str | None]] = []
    for group in GROUPS:
        groups.append(([*chosen(Path("penstock", group)), *BESIDE.get(group, ())], f"penstock_{group}"))
    files = [path for paths, _ in groups for path in paths]
    extensions = mypycify(
        [*TYPES, *files], only_compile_paths=files, opt_level="2", debug_level="0", separate=groups, target_dir="c"
    )
    name, source = NATIVE
    extensions.append(Extension(name, [source], extra_compile_args=["-O2", "-g0"]))
    for extension in extensions:
        # A warning of a compiler that is newer than mypyc must not stop the build.
        extension.extra_compile_args.append("-Wno-error")
    command = ["--quiet", "build_ext", "--parallel", jobs, "--build-lib", target, "--build-temp", "objects"]
    setup(name="penstock-compiled", ext_modules=extensions, script_args=command)


if __name__ == "__main__":
    main(*sys.argv[1:])
