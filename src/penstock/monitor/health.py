"""What /health answers, on both ports: whether clients should be sent here, and what is wrong by name.

Anybody may ask, so there are names only; the reasons are in the log. Read next: docs/configuration.md, "Health".
"""

from __future__ import annotations

from collections.abc import Sequence

Answer = tuple[int, dict[str, object]]


def answer(ready: bool, failed: Sequence[str], degraded: Sequence[str]) -> Answer:
    """Status code and body.

    `failed` names parts that the server needs and that do not recover by themselves, or that lose data meanwhile:
    503. `degraded` names parts that the others do not need: 200, because clients would not be better off elsewhere.
    """
    if not ready:
        return 503, {"status": "starting"}
    body: dict[str, object] = {"status": "failed" if failed else "degraded" if degraded else "ok"}
    if failed:
        body["failed"] = list(failed)
    if degraded:
        body["degraded"] = list(degraded)
    return 503 if failed else 200, body
