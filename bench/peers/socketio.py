"""socket.io, from npm: rooms and events over its own WebSocket transport. The server is `socketio_server.js`."""

from __future__ import annotations

from pathlib import Path

from bench.peers import Peer, environments
from bench.rig.build import run
from bench.rig.child import Daemon, Program, free_port

VERSION = "4.8.4"
SERVER = Path(__file__).with_name("socketio_server.js")


def install() -> str:
    environments.npm_package("socket.io", VERSION)
    return f"socket.io {VERSION}, Node.js {run(['node', '--version'])}"


def start(directory: Path, core: int | None) -> Program:
    port = free_port()
    modules = environments.npm_package("socket.io", VERSION) / "node_modules"
    return Daemon(directory, core, ["node", str(SERVER), str(port)], port, environment={"NODE_PATH": str(modules)})


PEER = Peer("socket.io", "socketio", "rooms and events in JSON, on Node.js", install, start)
