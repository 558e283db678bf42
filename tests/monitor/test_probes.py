"""What the probes answer: who lives is 200, who is ready is 200 unless something that it needs has failed."""

from __future__ import annotations

import pytest

from penstock.monitor.health import ProbeAnswer, ServerPhase, live, ready


def test_who_can_answer_lives() -> None:
    assert live() == (200, {"status": "live"})


@pytest.mark.parametrize(
    ("phase", "failed", "degraded", "expected"),
    [
        (ServerPhase.STARTING, [], [], (503, {"status": "starting"})),
        (ServerPhase.READY, [], [], (200, {"status": "ready"})),
        (ServerPhase.READY, [], ["disk"], (200, {"status": "degraded", "degraded": ["disk"]})),
        (ServerPhase.READY, ["journal"], [], (503, {"status": "failed", "failed": ["journal"]})),
        (
            ServerPhase.READY,
            ["journal"],
            ["disk"],
            (503, {"status": "failed", "failed": ["journal"], "degraded": ["disk"]}),
        ),
        (ServerPhase.DRAINING, [], [], (503, {"status": "draining"})),
        (ServerPhase.DRAINING, ["journal"], [], (503, {"status": "draining", "failed": ["journal"]})),
    ],
)
def test_readiness_is_the_phase_unless_something_is_wrong_and_names_what_is(
    phase: ServerPhase, failed: list[str], degraded: list[str], expected: ProbeAnswer
) -> None:
    assert ready(phase, failed, degraded) == expected
