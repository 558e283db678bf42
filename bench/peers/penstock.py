"""Penstock itself, as `bench.server` runs it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import penstock
from bench.peers import Peer
from bench.rig.build import Unavailable
from bench.rig.child import Child, Program


def server(directory: Path, core: int | None, *arguments: str) -> Program:
    """With options of `bench.server`."""
    return Child(directory, core, "bench.rig.server", *arguments, f"server.data_dir={directory / 'data'}")


def variant(name: str, about: str, arguments: Sequence[str], options: Mapping[str, Any]) -> Peer:
    """Penstock with options of `bench.server`, and of the load."""
    return Peer(name, "tlcp", about, install, lambda directory, core: server(directory, core, *arguments), options)


def install() -> str:
    return f"penstock {penstock.__version__}, {penstock.BUILD}"


def install_interpreted() -> str:
    if penstock.BUILD.name != "compiled":
        raise Unavailable("it runs interpreted as it is")
    return f"penstock {penstock.__version__}, interpreted"


def start_interpreted(directory: Path, core: int | None) -> Program:
    command = [sys.executable, "-m", "bench.rig.server", f"server.data_dir={directory / 'data'}"]
    return Program(directory, core, command, {"PENSTOCK_BUILD": "interpreted"})


# In MERGE mode a server that cannot keep up may pass over updates; what was passed over is not counted as delivered.
PEER = variant("penstock", "all of TLCP: sessions, snapshots, limits, recovery", [], {"conflated": True})
EXACT = variant("penstock-unfiltered", "the same, no update may be passed over", [], {"frequencies": "unfiltered"})
INTERPRETED = Peer(
    "penstock-interpreted",
    "tlcp",
    "the same, kernel and wire not compiled",
    install_interpreted,
    start_interpreted,
    {"conflated": True},
)
