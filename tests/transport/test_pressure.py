from __future__ import annotations

import asyncio

from penstock.kernel.ledger import Ledger
from penstock.transport.pressure import Patience


class Pipe(asyncio.Transport):
    """A transport whose unsent bytes the test sets."""

    def __init__(self, waiting: int) -> None:
        super().__init__()
        self.waiting = waiting
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.aborted = True


def test_a_peer_is_cut_when_it_takes_nothing_and_not_when_it_is_merely_slow() -> None:
    async def scenario() -> None:
        slow, stuck = Pipe(1_000), Pipe(1_000)
        ledger = Ledger()
        all_slow: set[Patience] = set()
        watched = [Patience(slow, 0.02, ledger, all_slow), Patience(stuck, 0.02, ledger, all_slow)]
        assert ledger.waiting == 2_000
        assert all_slow == set(watched)
        while not stuck.aborted:
            slow.waiting -= 1
            await asyncio.sleep(0.005)
        assert not slow.aborted
        assert slow.waiting > 0
        for patience in watched:
            patience.cancel()
        assert ledger.waiting == 0
        assert not all_slow

    asyncio.run(scenario())
