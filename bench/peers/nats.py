"""nats-server, built from its Go module: subscribers over WebSocket, the publisher over TCP."""

from __future__ import annotations

from pathlib import Path

from bench.peers import Peer, environments
from bench.rig.build import run
from bench.rig.child import Daemon, Program, free_port

MODULE = "github.com/nats-io/nats-server/v2"
VERSION = "v2.15.2"


def program() -> Path:
    return environments.go_program(MODULE, VERSION)


def install() -> str:
    return run([str(program()), "--version"])


def start(directory: Path, core: int | None) -> Program:
    port, feed_port = free_port(), free_port()
    configuration = directory / "nats.conf"
    configuration.write_text(
        f'listen: "127.0.0.1:{feed_port}"\nmax_connections: 200000\n'
        f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true, compression: false }}\n'
    )
    return Daemon(directory, core, [str(program()), "--config", str(configuration)], port, feed_port)


PEER = Peer("nats", "nats", "nats-server, subscribers over WebSocket", install, start)
