"""The floors: what a fan-out costs in C without any rules. Source: bench/native/floor.c."""

from __future__ import annotations

from pathlib import Path

from bench.peers import Peer
from bench.rig.build import native, run
from bench.rig.child import Program


def install() -> str:
    native("floor")
    return run(["cc", "--version"]).splitlines()[0]


def start_each(directory: Path, core: int | None) -> Program:
    return Program(directory, core, [str(native("floor")), "each"])


def start_coalesced(directory: Path, core: int | None) -> Program:
    return Program(directory, core, [str(native("floor")), "coalesced"])


EACH = Peer("c-each", "plain", "floor in C: one send() per update", install, start_each)
COALESCED = Peer("c-coalesced", "plain", "floor in C: one send() per subscriber and turn", install, start_coalesced)
