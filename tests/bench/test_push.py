from __future__ import annotations

from bench.rig.machine import Cores
from bench.scenarios import push

PLAN = push.Plan(devices=3_000, items=10, rate=20, seconds=1.0)


def test_exactly_those_are_notified_whose_triggers_come_true() -> None:
    figures = push.measure(PLAN, Cores())
    assert figures.sent == figures.expected > 0
    assert figures.memory > 0
    assert figures.share > 0


def test_what_has_to_fire_is_found_by_looking_at_every_price() -> None:
    fired = set()
    waiting = push.waiting(PLAN)
    for prices in push.walk(PLAN):
        for number, each in enumerate(waiting):
            price = prices[each.item]
            if price > each.price if each.is_above else price < each.price:
                fired.add(number)
    assert len(fired) == push.expected(PLAN) > 0
