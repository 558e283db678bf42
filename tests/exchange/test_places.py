from __future__ import annotations

import pytest

from penstock.exchange.places import Places, TlexPlace
from penstock.wire.tlex.vocabulary import SecurityMode
from tests.exchange.world import BROKER, A, World

X, Y = TlexPlace("x", 1), TlexPlace("y", 1, 2)


@pytest.fixture
def world() -> World:
    world = World()
    world.register(A)
    return world


def test_a_place_is_chosen_by_the_sessions_that_it_has_now(world: World) -> None:
    places = Places()
    places.offer("1", X)
    places.offer("2", Y)
    sessions = []
    for account, place in enumerate((X, X, X, Y, None)):
        authorization = world.authorization(BROKER, str(account))
        sessions.append(world.hub.create(authorization, world.request(BROKER, A), world.now, place))
        places.opened(sessions[-1])
    assert places.choose(SecurityMode.NONE) == Y
    places.ended(sessions[0])
    assert places.choose(SecurityMode.NONE) == Y
    places.ended(sessions[1])
    # As many at each: the one that was offered first.
    assert places.choose(SecurityMode.NONE) == X
    for session in sessions[2:]:
        places.ended(session)
    assert places.choose(SecurityMode.NONE) == X


def test_a_place_that_several_offer_is_there_until_the_last_has_withdrawn_it() -> None:
    places = Places()
    assert places.are_none
    assert places.offer("1", X) is None
    assert places.offer("2", X) is None
    assert places.withdraw("1") == X
    assert places.is_offered(X)
    assert places.offer("2", Y) == X
    assert not places.is_offered(X)
    assert places.withdraw("2") == Y
    assert places.withdraw("2") is None
    assert places.are_none


def test_only_a_place_with_tls_is_chosen_for_it() -> None:
    places = Places()
    places.offer("1", X)
    assert places.choose(SecurityMode.TLS) is None
    places.offer("2", Y)
    assert places.choose(SecurityMode.TLS) == Y
