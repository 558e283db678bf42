"""What /health and /ready answer, on both ports: whether the process lives, and whether clients should be sent here.

Anybody may ask, so there are names only; the reasons are in the log. Read next: docs/operations.md, "Probes".
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

ProbeAnswer = tuple[int, dict[str, object]]


class ServerPhase(Enum):
    """Of a server's life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


def live() -> ProbeAnswer:
    """That of /health: whoever is answered knows that the event loop runs. A restart would help against nothing else,
    so whatever else is wrong is not for this probe.
    """
    return 200, {"status": "live"}


def ready(phase: ServerPhase, failed: Sequence[str], degraded: Sequence[str]) -> ProbeAnswer:
    """That of /ready: status code and body.

    `failed` names parts that the server needs and that do not recover by themselves, or that lose data meanwhile:
    503. `degraded` names parts that the others do not need: 200, because clients would not be better off elsewhere.
    """
    status = phase.value
    if phase is ServerPhase.READY and (failed or degraded):
        status = "failed" if failed else "degraded"
    body: dict[str, object] = {"status": status}
    if failed:
        body["failed"] = list(failed)
    if degraded:
        body["degraded"] = list(degraded)
    return 200 if phase is ServerPhase.READY and not failed else 503, body
