"""Centrifugo, where its Go module can be had: the registry that answers here may not carry it, and then it says so."""

from __future__ import annotations

import json
from pathlib import Path

from bench.peers import Peer, environments
from bench.rig.build import run
from bench.rig.child import Daemon, Program, free_port

MODULE = "github.com/centrifugal/centrifugo/v6"
VERSION = "latest"


def program() -> Path:
    return environments.go_program(MODULE, VERSION)


def install() -> str:
    return run([str(program()), "version"])


def start(directory: Path, core: int | None) -> Program:
    """Anybody may connect, subscribe and publish."""
    port = free_port()
    configuration = directory / "config.json"
    allowed = {"allow_subscribe_for_anonymous": True, "allow_subscribe_for_client": True}
    allowed |= {"allow_publish_for_anonymous": True, "allow_publish_for_client": True}
    configuration.write_text(
        json.dumps(
            {
                "http_server": {"address": "127.0.0.1", "port": str(port)},
                "client": {
                    "queue_max_size": 64 * 1024 * 1024,
                    "insecure": True,
                    "allowed_origins": ["*"],
                    "channel_limit": 1000,
                },
                "channel": {"without_namespace": allowed},
                "websocket": {"message_size_limit": 16 * 1024 * 1024},
            }
        )
    )
    return Daemon(directory, core, [str(program()), "--config", str(configuration)], port)


PEER = Peer("centrifugo", "centrifugo", "Centrifugo, JSON over WebSocket", install, start)
