"""How the benchmark of candles counts: each trade once, from when it was posted until a close has passed it."""

from __future__ import annotations

import time

from bench.rig.queries import STOCKS
from bench.scenarios.candles import REQUEST, Seen, Trades


def test_a_close_tells_of_all_trades_of_the_stock_up_to_it() -> None:
    now = time.perf_counter()
    trades = Trades([now - 3, now - 2, now - 1])
    seen = Seen()
    seen.close(5, 5 + STOCKS, trades, now - 10)
    assert len(seen.latencies) == 2
    assert min(seen.latencies) >= 3
    seen.close(5, 5 + REQUEST, trades, now - 10)
    assert len(seen.latencies) == 3
    assert 2 <= seen.latencies[-1] < 3


def test_trades_of_the_warm_up_do_not_count_and_a_candle_that_goes_back_is_noticed() -> None:
    now = time.perf_counter()
    trades, seen = Trades([now - 3, now - 2]), Seen()
    seen.close(0, REQUEST, trades, now - 2.5)
    assert len(seen.latencies) == 1
    seen.close(0, 0, trades, now - 2.5)
    assert seen.backward == 1
    assert len(seen.latencies) == 1
