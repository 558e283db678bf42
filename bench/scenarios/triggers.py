"""Triggers of push subscriptions: what updates cost that many of them wait for, beside evaluating one by one.

The rules alone, in this process: no adapter, no database, nobody is notified. Both ways get the same updates, and must
fire the same triggers at the same update. Runs no server.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from bench.rig.machine import Cores
from bench.rig.results import Report
from penstock.push.thresholds import Thresholds
from penstock.push.trigger.trigger import Trigger

ABOUT = "evaluation of 100,000 push triggers on 100 items, by their sorted index and one by one"

SEED = 18
# Fields of an update: a name, the price that triggers compare, a time.
FIELD_COUNT = 3
OPENING = 100.0
# Triggers of which the memory is measured: counting it is slow.
SAMPLE = 10_000
# The share of a core that the evaluation may take.
GOAL = 0.5

Update = tuple[int, tuple[str | None, ...]]
Fired = list[list[str]]


@dataclass(frozen=True, slots=True)
class Plan:
    triggers: int
    items: int
    # Updates a second of each item.
    rate: int
    # Seconds of updates for the index; one by one gets the first of them only, because it takes long.
    seconds: float
    naive_seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Share of a core, microseconds an update, bytes a trigger; what fired at each update."""

    share: float
    micros: float
    memory: float
    fired: Fired


def texts(plan: Plan) -> list[tuple[int, str, str]]:
    """The item of each trigger, its id and text: prices around the first one, above or below it."""
    random = Random(SEED)
    made = []
    for number in range(plan.triggers):
        distance = abs(random.gauss(0, 10)) + 0.02
        sign = random.choice("<>")
        price = OPENING + distance if sign == ">" else OPENING - distance
        text = f"Double.parseDouble($[2]) {sign} {price:.2f}"
        made.append((number % plan.items, f"05357a23-fd10-4978-980b-{number:012}", text))
    return made


def updates(plan: Plan, seconds: float) -> Iterator[Update]:
    """A walk of each item's price, the same in every run."""
    random = Random(SEED)
    prices = [OPENING] * plan.items
    for number in range(int(plan.rate * plan.items * seconds)):
        item = number % plan.items
        prices[item] += random.gauss(0, 0.05)
        yield item, (f"item{item}", f"{prices[item]:.2f}", str(number))


class Indexed:
    """What the server does."""

    def __init__(self, plan: Plan, made: list[tuple[int, str, str]]) -> None:
        self._items = [Thresholds() for _ in range(plan.items)]
        for item, identifier, text in made:
            threshold = Trigger.compile(text, FIELD_COUNT, None).threshold
            assert threshold is not None
            self._items[item].add(identifier, threshold)

    def update(self, item: int, values: tuple[str | None, ...]) -> list[str]:
        found = self._items[item].fired(values)
        for identifier in found:
            self._items[item].remove(identifier)
        return found


class OneByOne:
    """Every trigger of the item asked at every update."""

    def __init__(self, plan: Plan, made: list[tuple[int, str, str]]) -> None:
        self._items: list[dict[str, Trigger]] = [{} for _ in range(plan.items)]
        for item, identifier, text in made:
            self._items[item][identifier] = Trigger.compile(text, FIELD_COUNT, None)

    def update(self, item: int, values: tuple[str | None, ...]) -> list[str]:
        waiting = self._items[item]
        found = [identifier for identifier, trigger in waiting.items() if trigger.matches(values)]
        for identifier in found:
            del waiting[identifier]
        return found


Make = Callable[[Plan, list[tuple[int, str, str]]], Indexed | OneByOne]


def measure(plan: Plan, make: Make, seconds: float) -> Figures:
    made = texts(plan)
    all_updates = list(updates(plan, seconds))
    memory = bytes_each(plan, make, made[:SAMPLE])
    book = make(plan, made)
    begin = time.process_time()
    fired = [sorted(book.update(item, values)) for item, values in all_updates]
    spent = time.process_time() - begin
    return Figures(spent / seconds, spent / len(all_updates) * 1e6, memory, fired)


def bytes_each(plan: Plan, make: Make, made: list[tuple[int, str, str]]) -> float:
    """Ids and texts are not counted: the subscription has them."""
    gc.collect()
    tracemalloc.start()
    book = make(plan, made)
    memory = tracemalloc.get_traced_memory()[0] / len(made)
    tracemalloc.stop()
    del book
    return memory


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--triggers", type=int, default=100_000, help="triggers in all (default %(default)s)")
    parser.add_argument("--items", type=int, default=100, help="items that they are on (default %(default)s)")
    parser.add_argument("--rate", type=int, default=10, help="updates a second of each item (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of updates (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when the two ways do not fire the same, or nothing at all."""
    report = Report("triggers")
    plan = Plan(options.triggers, options.items, options.rate, options.seconds, min(options.seconds, 1.0))
    indexed = measure(plan, Indexed, plan.seconds)
    naive = measure(plan, OneByOne, plan.naive_seconds)
    rows = [
        (name, format(ours, form), format(theirs, form), f"{theirs / ours:,.0f}")
        for name, ours, theirs, form in (
            ("share of a core", indexed.share, naive.share, ".3f"),
            ("µs per update", indexed.micros, naive.micros, ",.1f"),
            ("bytes per trigger", indexed.memory, naive.memory, ",.0f"),
        )
    ]
    title = f"{plan.triggers:,} triggers on {plan.items} items at {plan.rate} updates/s each"
    report.table(title, ("index", "one by one", "times"), rows)
    fired = sum(map(len, indexed.fired))
    met = "met" if indexed.share < GOAL else "MISSED"
    report.remark(f"{fired:,} fired in {plan.seconds:g} s; the goal is {GOAL} of a core: {met}.")
    same = indexed.fired[: len(naive.fired)] == naive.fired
    compared = sum(map(len, naive.fired))
    if not same:
        report.failure("the index", "it does not fire what the triggers say")
    if not compared:
        report.failure("the triggers", "nothing has fired")
    return report.save()
