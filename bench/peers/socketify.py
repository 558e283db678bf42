"""socketify: Python over uWebSockets, from PyPI into an environment of its own. The server is `socketify_server`."""

from __future__ import annotations

from pathlib import Path

from bench.peers import Peer, environments
from bench.rig.child import Daemon, Program, free_port

VERSION = "0.0.31"
SERVER = Path(__file__).with_name("socketify_server.py")


def install() -> str:
    python = environments.python("socketify", f"socketify=={VERSION}")
    return f"socketify {VERSION}, {environments.version_of(python)}"


def start(directory: Path, core: int | None) -> Program:
    port = free_port()
    python = environments.python("socketify", f"socketify=={VERSION}")
    return Daemon(directory, core, [str(python), "-I", str(SERVER), str(port)], port)


PEER = Peer("socketify", "plain", "uWebSockets publish/subscribe, driven from Python", install, start)
