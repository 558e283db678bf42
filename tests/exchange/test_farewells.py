from __future__ import annotations

from penstock.exchange.farewells import ENDS, Farewell


def test_every_farewell_says_how_a_session_has_ended() -> None:
    assert set(ENDS) == set(Farewell)
