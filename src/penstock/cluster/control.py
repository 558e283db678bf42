"""What a supervisor and its workers say to each other: a line of JSON each, over a pair of sockets.

The supervisor begins with `WorkerTask`. A worker whose socket ends has lost its supervisor. Signals say the rest:
SIGTERM to stop, SIGHUP to read the configuration again. Read next: supervisor, `penstock.worker`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

HUB = "hub"


class WorkerGivenUp(Struct, tag="given_up", frozen=True):
    """For the hub: a worker is not started again. `since` is in seconds since 1970."""

    name: str
    since: float


class WorkerTask(Struct, tag="task", frozen=True):
    """What a worker is, and the configuration that it is to have: it came from `path`, which may say something else by
    now. Secrets are in it, so it is neither an argument nor a file.
    """

    # `hub`, or that of an edge.
    name: str
    # The process that it belongs to.
    supervisor: int
    directory: str
    path: str | None
    source: str | None
    overrides: dict[str, str | int | bool]
    # Ports that are taken already, by the name of their listener.
    ports: dict[str, int]
    # Those of the API port's listeners, for edges.
    api_ports: list[int]
    # `penstock demo`: its defaults, and its administrator.
    demo: bool
    # There was a hub before this worker.
    is_replacement: bool
    # Levels of the log that were set while the server ran.
    levels: dict[str, str] = {}
    # Workers that are not started again.
    given_up: list[WorkerGivenUp] = []


class LevelSet(Struct, tag="level", frozen=True):
    """Somebody has set the level of a category; None: what the configuration says. Both ways: it is for all."""

    category: str
    level: str | None


class WorkerReady(Struct, tag="ready", frozen=True):
    """The worker does its work: what it adds to the line that says so, and the ports that it has taken."""

    addresses: list[str]
    named: list[str]
    ports: dict[str, int]
    # Of the API port, for what runs along with the server; empty at an edge.
    api: str = ""
    # For the person who has started it, after that line.
    lines: list[str] = []


class WorkerFailed(Struct, tag="failed", frozen=True):
    """The worker cannot start, for a reason that people can understand."""

    reason: str


class ReloadDone(Struct, tag="reloaded", frozen=True):
    """The hub has taken over another configuration."""


class StopAsked(Struct, tag="stop", frozen=True):
    """An administrator wants the server to stop."""


Word: TypeAlias = WorkerTask | LevelSet | WorkerGivenUp | WorkerReady | WorkerFailed | ReloadDone | StopAsked

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Word] = msgspec.json.Decoder(Word)


def written(word: Word) -> bytes:
    return _ENCODER.encode(word) + b"\n"


class Words:
    """Reads what comes in pieces."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, data: bytes) -> list[Word]:
        *whole, self._begun = (self._begun + data).split(b"\n")
        return [_DECODER.decode(line) for line in whole]
