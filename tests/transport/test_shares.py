from __future__ import annotations

import pytest

from penstock.config import load
from penstock.transport.descriptors import Shares


@pytest.mark.parametrize("descriptors", [16, 128, 1_024, 20_000, 1_048_576])
@pytest.mark.parametrize("tlex", [False, True])
def test_the_ports_together_never_have_more_than_there_are_and_each_has_some(descriptors: int, tlex: bool) -> None:
    shares = Shares.of(load(None, {"tlex.enabled": tlex}).config, descriptors)
    assert shares.stream + shares.api + shares.tlex_strangers + descriptors // 8 <= descriptors
    assert min(shares.stream, shares.api) >= 1
    assert shares.stream >= descriptors // 2
    assert bool(shares.tlex_strangers) == tlex


@pytest.mark.parametrize("tlex", [False, True])
def test_an_edge_has_connections_of_tlex_as_well(tlex: bool) -> None:
    shares = Shares.of_edge(load(None, {"tlex.enabled": tlex}).config, 1_024)
    assert shares == Shares(stream=1_024 - 128 - (128 if tlex else 0), api=0, tlex_strangers=128 if tlex else 0)


def test_what_is_configured_wins() -> None:
    config = load(None, {"api.max_connections": 7, "tlex.enabled": True, "tlex.max_strangers": 3}).config
    assert Shares.of(config, 1_000) == Shares(stream=1_000 - 7 - 3 - 125, api=7, tlex_strangers=3)
    assert Shares.of(load(None, {"stream.max_connections": 5}).config, 1_000).stream == 5
