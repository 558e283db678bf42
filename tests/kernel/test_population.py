from __future__ import annotations

from penstock.kernel.connection import Binding
from penstock.kernel.population import Population
from penstock.kernel.ports import Admission, ClientFacts
from penstock.testing.channel import MemoryChannel
from penstock.testing.harness import Harness


def test_sessions_are_counted_by_what_they_have_in_common(harness: Harness) -> None:
    sessions = [harness.open()[0] for _ in range(4)]
    for session, adapter_set, library in zip(sessions, "AABC", ("x", None, "x", "y"), strict=True):
        session.adapter_set = adapter_set
        session.client = ClientFacts("", False, {}, library=library)
        session.touch()
    sessions[0].admit(Admission(max_bandwidth=40.0), None)
    sessions[1].admit(Admission(max_bandwidth=2.5), None)
    sessions[2].bind(MemoryChannel(), Binding(polling=True, idle_millis=1_000), [])
    sessions[3].drop()
    found = Population()
    found.count(sessions[:1])
    found.count(sessions[1:])
    assert found.transports == {"websocket": 2, "websocket-polling": 1, "none": 1}
    assert found.adapter_sets == {"A": 2, "B": 1, "C": 1}
    assert found.libraries == {"x": 2, "unknown": 1, "y": 1}
    assert found.allocated == 42.5


def test_sessions_that_were_opened_ahead_do_not_count(harness: Harness) -> None:
    session, _ = harness.open()
    found = Population()
    found.count([session])
    assert found.transports == found.adapter_sets == found.libraries == {}


def test_of_what_there_was_before_there_is_none_now(harness: Harness) -> None:
    session, _ = harness.open()
    session.adapter_set = "A"
    session.touch()
    before = Population()
    before.count([session])
    now = Population(before)
    assert now.transports == dict.fromkeys(before.transports, 0)
    assert (now.adapter_sets, now.libraries, now.allocated) == ({"A": 0}, {"unknown": 0}, 0.0)
