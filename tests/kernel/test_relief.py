"""When the ledger is full, lines that are kept for recovery go only where they have more than their share."""

from __future__ import annotations

import pytest

from penstock.kernel.ledger import Ledger
from penstock.kernel.recovery import Batch, RecoveryLog

LIMIT = 1_000


class Stuck:
    """A transport that cannot write."""

    def __init__(self, size: int) -> None:
        self.size = size

    def holds(self) -> int:
        return self.size

    def cut(self) -> None:
        self.size = 0


def relieved(*sizes: int) -> tuple[Ledger, list[RecoveryLog]]:
    """A ledger that a transport has filled, with logs of these sizes."""
    ledger = Ledger(LIMIT)
    logs = []
    for size in sizes:
        log = RecoveryLog(LIMIT, 60.0, ledger)
        log.append(Batch(0.0, [b"x" * size]))
        logs.append(log)
    ledger.hold(Stuck(LIMIT - ledger.logged + 1))
    ledger.relieve([], logs)
    return ledger, logs


@pytest.mark.parametrize("size", [10, 480, 500])
def test_logs_within_their_share_are_kept(size: int) -> None:
    ledger, (log,) = relieved(size)
    assert (log.size, ledger.logged, ledger.emptied_logs) == (size, size, 0)
    assert (ledger.waiting, ledger.cut_reserves) == (0, 1)


def test_the_largest_logs_are_emptied_until_the_others_have_enough_room() -> None:
    ledger, logs = relieved(100, 300, 101)
    assert [log.size for log in logs] == [100, 0, 101]
    assert (ledger.logged, ledger.emptied_logs) == (201, 1)
