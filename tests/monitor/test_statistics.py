"""The fields of monitor_statistics: those of the specification and those beyond it, each with its own attribute."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from penstock.monitor.statistics import FIELDS, MEANINGS, ServerStatistics

# General Concepts 4.2.1, in its order.
SPECIFIED = [
    "MEMORY.TOTAL",
    "MEMORY.FREE",
    "THREADS",
    "POOL.SIZE",
    "POOL.ACTIVE",
    "POOL.WAITING",
    "POOL.QUEUE",
    "POOL.QUEUE_WAIT",
    "NIO.WRITE_QUEUE",
    "NIO.WRITE_QUEUE_WAIT",
    "NIO.WRITE_SELECTORS",
    "NIO.TOTAL_SELECTORS",
    "CLIENTS.CONNECTIONS",
    "CLIENTS.MAX_CONNECTIONS",
    "CLIENTS.SESSIONS",
    "CLIENTS.MAX_SESSIONS",
    "CLIENTS.REFUSED_SESSIONS",
    "CLIENTS.STREAMING_SESSIONS",
    "CLIENTS.POLLING_SESSIONS",
    "CLIENTS.ITEM_SUBSCR",
    "CLIENTS.MAX_ITEM_SUBSCR",
    "ITEMS.TOTAL",
    "ITEMS.EVENTS_SEC",
    "ITEMS.FILTERED_EVENTS_SEC",
    "UPDATES.EVENTS_SEC",
    "UPDATES.TOTAL_IN",
    "UPDATES.TOTAL_OUT",
    "UPDATES.TOTAL_LOST",
    "BANDWIDTH.TOTAL_BYTES",
    "BANDWIDTH.CURRENT",
    "BANDWIDTH.HIGHEST",
    "BANDWIDTH.ALLOCATED",
    "BANDWIDTH.CLIENT_AVERAGE",
    "MESSAGES.EVENTS_SEC",
    "MESSAGES.TOTAL_HANDLED",
    "MESSAGES.TOTAL_BYTES",
    "MESSAGES.CURRENT_THROUGHPUT",
    "MESSAGES.HIGHEST_THROUGHPUT",
    "PUSH_NOTIFICATIONS.DEVICES",
    "PUSH_NOTIFICATIONS.MAX_DEVICES",
    "PUSH_NOTIFICATIONS.NOTIFICATIONS_SEC",
    "PUSH_NOTIFICATIONS.TOTAL_SENT",
    "PUSH_NOTIFICATIONS.TOTAL_BYTES",
    "PUSH_NOTIFICATIONS.CURRENT_THROUGHPUT",
    "PUMP_WAIT.SLEEP",
    "PUMP_WAIT.NOTIFY",
]

BEYOND = [
    "TIME_MS",
    "LOOP.LAG_P50",
    "LOOP.LAG_P99",
    "LOOP.LAG_MAX",
    "AGE.P50",
    "AGE.P99",
    "AGE.MAX",
    "UNSENT.BYTES",
    "UNSENT.CONNECTIONS",
    "WAITING.BYTES",
    "UPDATES.FILTERED_SEC",
    "UPDATES.LOST_SEC",
    "JOURNAL.APPENDS_SEC",
    "JOURNAL.SYNCS_SEC",
    "JOURNAL.SYNC_P99",
    "JOURNAL.BYTES",
    "JOURNAL.FAILED",
    "DITTO.COMMANDS_SEC",
    "DITTO.EVENTS_SEC",
    "DITTO.STREAMS",
    "TLEX.SESSIONS",
    "TLEX.PAYLOADS_SEC",
    "TLEX.DROPPED",
    "ADAPTERS.CALLS_SEC",
    "ADAPTERS.FAILED",
    "CPU.PERCENT",
    "MEMORY.RSS",
    "DESCRIPTORS.OPEN",
    "DESCRIPTORS.LIMIT",
    "PIPELINE.QUERIES",
    "PIPELINE.LAG",
]


def test_every_field_of_the_specification_comes_first_and_in_its_order() -> None:
    assert list(FIELDS) == [*SPECIFIED, *BEYOND]


def test_attributes_are_named_as_their_fields() -> None:
    assert [each.name for each in fields(ServerStatistics)] == [name.lower().replace(".", "_") for name in FIELDS]


def test_every_field_says_what_it_means() -> None:
    assert all(MEANINGS[name] for name in FIELDS)


def test_statistics_are_of_one_moment_and_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        ServerStatistics().threads = 1  # type: ignore[misc]
