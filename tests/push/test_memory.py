"""What a device with a subscription and a trigger costs in memory, and an update that fires few of many."""

from __future__ import annotations

import gc
import tracemalloc
from uuid import UUID

from penstock.push.flows import FlowBook
from penstock.push.records import (
    Device,
    DeviceKey,
    DeviceStatus,
    Flow,
    Platform,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveSubscription,
    SubscriptionStatus,
)
from tests.push.world import APP, counted, registry

# Just more than dictionaries have room for before they double, because they are at their largest then.
DEVICES = 5_500
MOST_BYTES = 2_048


def as_from_the_database(number: int) -> tuple[PushChange, ...]:
    """Nothing is the same object as in another one, and tokens are as long as Google's."""
    item, since = f"item{number % 100}", 1_800_000_000_000 + number
    id = str(UUID(int=number))
    key = DeviceKey(Platform.GOOGLE, "".join(list(APP)), f"{number:0160}")
    flow = Flow("DEMO", "QUOTES", item, "name last", "MERGE", (item,), ("name", "last"))
    format = "".join(list('{"aps":{"alert":"$[1] is $[2]","badge":"AUTO"},"more":"than that"}'))
    trigger = f"Double.parseDouble($[2]) > {number / 7:.3f}"
    return (
        SaveDevice(Device(id, key, DeviceStatus.ACTIVE, since, since + 1)),
        SaveSubscription(
            PushSubscription(
                str(UUID(int=number << 64)),
                "".join(list(id)),
                flow,
                format,
                trigger,
                None,
                None,
                SubscriptionStatus.ACTIVE,
                since + 2,
            )
        ),
    )


def test_a_device_with_a_subscription_and_a_trigger_takes_less_than_2_kilobytes() -> None:
    rules = registry()
    book = FlowBook(rules, counted("n-"))
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(DEVICES):
            book.apply(as_from_the_database(number))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rules.device_count == rules.subscription_count == DEVICES
    assert (after - before) / DEVICES < MOST_BYTES


def test_an_update_looks_only_at_thresholds_that_it_passes() -> None:
    rules = registry()
    book = FlowBook(rules, counted("n-"))
    for number in range(1_000):
        book.apply(as_from_the_database(100 * number))
    (flow,) = book.flows
    asked: list[str] = []

    class Watched(dict[float, object]):
        def __getitem__(self, constant: float) -> object:
            asked.append(str(constant))
            return super().__getitem__(constant)

    ((ladder,),) = [list(each.values()) for each in book._flows[flow].thresholds._ladders.values()]
    ladder._buckets = Watched(ladder._buckets)  # type: ignore[assignment]
    assert book.update(flow, ("a", "-1"), 1) == []
    assert asked == []
    assert len(book.update(flow, ("a", "100.0"), 1)) == 7
    # Once to find it, once to remove it.
    assert len(asked) == 14
