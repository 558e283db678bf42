"""What `tests.adapters.test_limits` says, with guests."""

from penstock.kernel.ruling import Ruling
from tests.adapters.test_limits import *  # noqa: F403
from tests.adapters.test_limits import Running
from tests.cluster.weaving import fabric  # noqa: F401
from tests.support.waiting import wait_until


def test_what_an_administrator_has_set_stands_in_place_of_its_decision(running: Running) -> None:  # type: ignore[no-redef]
    """As there, but what the adapter sets takes a moment to get to the edge, and nobody is told of it."""
    session = running.server.server.kernel.find_session(running.id)
    running.server.call(lambda: session.rule(Ruling(30.0)))
    running.server.call(lambda: session.subscriptions[1].rule(Ruling(9.0)))
    running.limiter.bandwidth, running.limiter.frequencies = 1.0, {"a": 1.0, "b": 1.0}
    assert running.constrain("unlimited") == ["REQOK,1"]
    assert running.reconfigure("unlimited") == ["REQOK,1"]
    assert running.limiter.asked == []
    assert running.handle.set_bandwidth(running.id, 2.0)
    assert running.handle.set_frequency(running.id, 1, 4.0)
    edge = running.server.server.woven.hub.guests.edges["edge"]  # type: ignore[attr-defined]
    wait_until(lambda: edge.caller.pending == 0, "the edge has not answered")
    assert (session.max_bandwidth, session.subscriptions[1].max_frequency) == (30.0, 9.0)
    running.server.call(lambda: session.rule(None))
    running.server.call(lambda: session.subscriptions[1].rule(None))
    assert (session.max_bandwidth, session.subscriptions[1].max_frequency) == (2.0, 4.0)
