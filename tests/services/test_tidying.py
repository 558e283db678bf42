from __future__ import annotations

import threading

import pytest

from penstock.collector import passes
from penstock.kernel.alike import shared_name
from penstock.services.tidying import TidyingService
from penstock.testing import Harness
from tests.support.background import BackgroundServer

PATIENCE = 40.0


def test_a_server_tidies_up_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    news = threading.Condition()
    times = 0

    def note() -> None:
        nonlocal times
        with news:
            times += 1
            news.notify()

    def wait_for(more: int) -> None:
        with news:
            enough = times + more
            assert news.wait_for(lambda: times >= enough, PATIENCE)

    monkeypatch.setattr("penstock.services.tidying.TIDY_PAUSE", 0.01)
    monkeypatch.setattr("penstock.services.tidying.give_back", note)
    with BackgroundServer({}):
        for _ in range(2):
            shared_name("an item")
            # The one that is under way may have passed the names.
            wait_for(2)
            assert shared_name.cache_info().currsize == 0


def test_frozen_objects_are_thawed_when_half_of_the_sessions_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    tidying = TidyingService(harness.kernel)
    sessions = [harness.open()[0] for _ in range(4)]
    monkeypatch.setattr(passes, "has_frozen", True)
    found = []
    for session in sessions:
        tidying._thaw()
        found.append(passes.has_frozen)
        session.close(31, "")
    assert found == [True, True, False, False]
