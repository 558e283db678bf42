"""`python -m fuzz [--runs N] [TARGET …]`: each target in a process of its own, with coverage-guided inputs by atheris.

A finding ends the run with exit code 1; the input that led to it is kept below build/fuzz/.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Rooms whose branches guide the search.
INSTRUMENTED = [
    "penstock.wire",
    "penstock.doors.tlcp.body",
    "penstock.push",
    "websockets.frames",
    "websockets.protocol",
]
FOLDER = Path("build/fuzz")

# Bytes of the longest input: longer ones find nothing new and slow the search down.
LONGEST = 600
# Seconds of processor time that no input may need.
SLOW = 1.0
# Seconds after which an input is hanging; much longer than SLOW, for the machine may be busy with other things.
HANGING = 60
# How the library ends when it is told to by a signal.
INTERRUPTED = 72


def fuzz(name: str, runs: int) -> None:
    """Fuzz one target; the library ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        targets = importlib.import_module("fuzz.targets")
    target = targets.TARGETS[name]

    def measured(data: bytes) -> None:
        begin = time.process_time()
        target(data)
        needed = time.process_time() - begin
        assert needed < SLOW, f"{needed:.2f} s for one input"

    folder = FOLDER / name
    options = [
        str(folder / "corpus"),
        f"-runs={runs}",
        f"-max_len={LONGEST}",
        f"-timeout={HANGING}",
        f"-dict={folder / 'words'}",
        f"-artifact_prefix={folder}/",
        "-verbosity=0",
        "-seed=1",
    ]
    atheris.Setup([sys.argv[0], *options], measured)
    atheris.Fuzz()


def prepare(name: str) -> None:
    """Write the seeds and words of a target to files; what earlier runs have found out stays."""
    from fuzz.seeds import SEEDS, WORDS

    corpus = FOLDER / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]):
        (corpus / f"seed-{number}").write_bytes(seed)
    quoted = ('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in WORDS[name])
    (FOLDER / name / "words").write_text("\n".join(quoted) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all when none is named")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs per target")
    parser.add_argument("--here", metavar="TARGET", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        fuzz(arguments.here, arguments.runs)
    from fuzz.seeds import SEEDS

    unknown = set(arguments.targets) - set(SEEDS)
    if unknown:
        parser.error(f"unknown targets {' '.join(sorted(unknown))}; known: {' '.join(SEEDS)}")
    for name in arguments.targets or SEEDS:
        prepare(name)
        begin = time.monotonic()
        command = [sys.executable, "-m", "fuzz", "--here", name, "--runs", str(arguments.runs)]
        # The library has a lot to say; it matters only together with a finding.
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if run.returncode == INTERRUPTED:
            print(f"{name}: interrupted after {time.monotonic() - begin:.0f} s, no finding until then")
            return 1
        if run.returncode:
            print(run.stdout)
            print(f"{name}: a finding, see above; its input is in {FOLDER / name}")
            return 1
        print(f"{name}: {arguments.runs} inputs, no finding, {time.monotonic() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
