"""Redis publish/subscribe over TCP, from the Debian package. No WebSocket: its own protocol is what people use."""

from __future__ import annotations

from pathlib import Path

from bench.peers import Peer, environments
from bench.rig.build import run
from bench.rig.child import Daemon, Program, free_port

# The program is in redis-tools; the others are its libraries.
PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblua5.1-0", "liblzf1", "lua-bitop", "lua-cjson")


def install() -> str:
    program, environment = environments.debian_program("redis-server", PACKAGES)
    return run([str(program), "--version"], environment=environment)


def start(directory: Path, core: int | None) -> Program:
    port = free_port()
    program, environment = environments.debian_program("redis-server", PACKAGES)
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(directory)]
    # A subscriber that is behind is not to be cut.
    settings += ["--client-output-buffer-limit", "pubsub 0 0 0", "--maxclients", "100000", "--tcp-backlog", "4096"]
    return Daemon(directory, core, [str(program), *settings], port, environment=environment)


PEER = Peer("redis", "redis", "redis-server publish/subscribe over TCP", install, start)
