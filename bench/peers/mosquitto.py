"""Mosquitto, from the Debian package: MQTT subscribers over WebSocket, the publisher over TCP, quality of service 0."""

from __future__ import annotations

from pathlib import Path

from bench.peers import Peer, environments
from bench.rig.child import Daemon, Program, free_port

PACKAGES = (
    "mosquitto",
    "libwebsockets17",
    "libdlt2",
    "libcjson1",
    "libev4",
    "libuv1",
    "libcap2",
    "libmosquitto1",
    "libwrap0",
)


def install() -> str:
    program, _ = environments.debian_program("mosquitto", PACKAGES)
    return f"mosquitto {environments.debian_version(program, 'mosquitto')}"


def start(directory: Path, core: int | None) -> Program:
    port, feed_port = free_port(), free_port()
    program, environment = environments.debian_program("mosquitto", PACKAGES)
    configuration = directory / "mosquitto.conf"
    configuration.write_text(
        f"user root\nallow_anonymous true\nset_tcp_nodelay true\nmax_queued_messages 0\n"
        f"listener {feed_port} 127.0.0.1\nlistener {port} 127.0.0.1\nprotocol websockets\n"
    )
    return Daemon(directory, core, [str(program), "-c", str(configuration)], port, feed_port, environment)


PEER = Peer("mosquitto", "mqtt", "MQTT over WebSocket, quality of service 0", install, start)
