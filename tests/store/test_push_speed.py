"""Very many devices are loaded in seconds, and a thousand that fire at once are one quick transaction.

Limits are several times what a free machine takes: these tests find what is slow by its kind, such as a query for each
device.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pytest

from penstock.push.records import PushChange, SubscriptionStatus
from penstock.store.push import ADOPT_LIMIT, PushStore
from penstock.store.store import Store
from tests.store.devices import device, everything, notification, subscription

pytestmark = pytest.mark.timeout(600)

# PROFILE=long
LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
DEVICES = 100_000 if LONG else 15_000
FIRING = 1_000

# Of processor time of this process, which other work on the machine does not change.
LOAD_SECONDS = 10.0
FIRE_SECONDS = 1.0
RENEW_SECONDS = 0.1


def portions(changes: Iterator[Sequence[PushChange]]) -> Iterator[list[PushChange]]:
    while portion := [change for each in islice(changes, 10_000) for change in each]:
        yield portion


def test_very_many_devices(store: Store) -> None:
    push = PushStore.join(store, "one", lease_millis=600_000)
    made = (everything(device(f"d{n:06}"), subscription(f"s{n:06}", f"d{n:06}")) for n in range(DEVICES))
    for portion in portions(made):
        push.write(portion)

    before = time.process_time()
    found = push.load()
    assert time.process_time() - before < LOAD_SECONDS
    assert (len(found.devices), len(found.subscriptions)) == (DEVICES, DEVICES)

    fired: list[PushChange] = []
    for each in found.subscriptions[:FIRING]:
        triggered = replace(each, status=SubscriptionStatus.TRIGGERED)
        fired += everything(device(each.device, badge=1), triggered, notification(f"n{each.id}", each.device, each.id))
    assert len(fired) == 3 * FIRING
    before = time.process_time()
    push.write(fired)
    assert time.process_time() - before < FIRE_SECONDS

    before = time.process_time()
    assert push.renew() == []
    assert push.adopt().devices == ()
    assert time.process_time() - before < RENEW_SECONDS

    push.leave()
    other = PushStore.join(store, "two", lease_millis=600_000)
    before = time.process_time()
    assert len(other.adopt().devices) == ADOPT_LIMIT
    assert time.process_time() - before < LOAD_SECONDS
