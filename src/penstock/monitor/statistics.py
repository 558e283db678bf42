"""Statistics: the state and the rates of a server at one moment, once a second; what monitor_statistics shows.

How they are made is in `sampler`. Specification: General Concepts 4.2.1; docs/operations.md says what each one means.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _shown(name: str, meaning: str) -> Any:
    """An attribute, the field of monitor_statistics that shows it, and what it means."""
    return field(default=0, metadata={"field": name, "meaning": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatistics:
    """Times in milliseconds, sizes in bytes, bandwidths in kbit/s; rates a second, of the time since the last sample.

    An attribute is named as its field, in lower case and with `_` in place of a dot.
    """

    # -- of the specification -------------------------------------------------------------------------------------

    memory_total: int = _shown(
        "MEMORY.TOTAL", "memory of all processes plus the available memory of the machine, in bytes"
    )
    memory_free: int = _shown("MEMORY.FREE", "available memory of the machine, in bytes")
    threads: int = _shown("THREADS", "threads of all processes")
    pool_size: int = _shown("POOL.SIZE", "threads for calls to adapters")
    pool_active: int = _shown("POOL.ACTIVE", "those of them that are busy with a call")
    pool_waiting: int = _shown("POOL.WAITING", "those of them that are idle")
    pool_queue: int = _shown("POOL.QUEUE", "calls to adapters that wait for a thread or for their result")
    pool_queue_wait: float = _shown("POOL.QUEUE_WAIT", "mean time that calls waited for a thread, in ms")
    nio_write_queue: int = _shown("NIO.WRITE_QUEUE", "connections with bytes that their peers do not read")
    nio_write_queue_wait: float = _shown(
        "NIO.WRITE_QUEUE_WAIT", "mean time for which those connections have been waiting, in ms"
    )
    nio_write_selectors: int = _shown("NIO.WRITE_SELECTORS", "event loops that write: one for each process")
    nio_total_selectors: int = _shown("NIO.TOTAL_SELECTORS", "event loops: one for each process")
    clients_connections: int = _shown("CLIENTS.CONNECTIONS", "connections to the stream port and the API port")
    clients_max_connections: int = _shown("CLIENTS.MAX_CONNECTIONS", "maximum number of connections so far")
    clients_sessions: int = _shown(
        "CLIENTS.SESSIONS", "sessions in use, without those opened in advance and not used yet"
    )
    clients_max_sessions: int = _shown("CLIENTS.MAX_SESSIONS", "maximum number of sessions so far")
    clients_refused_sessions: int = _shown("CLIENTS.REFUSED_SESSIONS", "sessions refused because of a load limit")
    clients_streaming_sessions: int = _shown("CLIENTS.STREAMING_SESSIONS", "sessions with a streaming connection")
    clients_polling_sessions: int = _shown("CLIENTS.POLLING_SESSIONS", "sessions whose clients poll")
    clients_item_subscr: int = _shown(
        "CLIENTS.ITEM_SUBSCR", "item subscriptions: the items of all subscriptions, added up"
    )
    clients_max_item_subscr: int = _shown("CLIENTS.MAX_ITEM_SUBSCR", "maximum of these so far")
    items_total: int = _shown("ITEMS.TOTAL", "different items that have subscribers")
    items_events_sec: float = _shown("ITEMS.EVENTS_SEC", "events from data adapters per second")
    items_filtered_events_sec: float = _shown(
        "ITEMS.FILTERED_EVENTS_SEC", "events per second that passed the prefilter of their item"
    )
    updates_events_sec: float = _shown("UPDATES.EVENTS_SEC", "updates sent to clients per second")
    updates_total_in: int = _shown("UPDATES.TOTAL_IN", "events from data adapters since the start")
    updates_total_out: int = _shown("UPDATES.TOTAL_OUT", "updates sent to clients since the start")
    updates_total_lost: int = _shown("UPDATES.TOTAL_LOST", "updates lost because a buffer was full, since the start")
    bandwidth_total_bytes: int = _shown("BANDWIDTH.TOTAL_BYTES", "bytes sent to sessions since the start")
    bandwidth_current: float = _shown("BANDWIDTH.CURRENT", "bandwidth in use, in kbit/s")
    bandwidth_highest: float = _shown("BANDWIDTH.HIGHEST", "maximum of these so far, in kbit/s")
    bandwidth_allocated: float = _shown(
        "BANDWIDTH.ALLOCATED", "sum of the bandwidth limits of all sessions that have one, in kbit/s"
    )
    bandwidth_client_average: float = _shown(
        "BANDWIDTH.CLIENT_AVERAGE", "average bandwidth in use per session, in kbit/s"
    )
    messages_events_sec: float = _shown("MESSAGES.EVENTS_SEC", "client messages passed to metadata adapters per second")
    messages_total_handled: int = _shown("MESSAGES.TOTAL_HANDLED", "client messages since the start")
    messages_total_bytes: int = _shown("MESSAGES.TOTAL_BYTES", "their bytes, two for each character")
    messages_current_throughput: float = _shown("MESSAGES.CURRENT_THROUGHPUT", "bandwidth of messages, in kbit/s")
    messages_highest_throughput: float = _shown("MESSAGES.HIGHEST_THROUGHPUT", "maximum of these so far, in kbit/s")
    push_notifications_devices: int = _shown("PUSH_NOTIFICATIONS.DEVICES", "devices for push notifications")
    push_notifications_max_devices: int = _shown("PUSH_NOTIFICATIONS.MAX_DEVICES", "maximum of these so far")
    push_notifications_notifications_sec: float = _shown(
        "PUSH_NOTIFICATIONS.NOTIFICATIONS_SEC", "notifications accepted by providers per second"
    )
    push_notifications_total_sent: int = _shown("PUSH_NOTIFICATIONS.TOTAL_SENT", "notifications since the start")
    push_notifications_total_bytes: int = _shown("PUSH_NOTIFICATIONS.TOTAL_BYTES", "their bytes")
    push_notifications_current_throughput: float = _shown(
        "PUSH_NOTIFICATIONS.CURRENT_THROUGHPUT", "bandwidth of notifications, in kbit/s"
    )
    pump_wait_sleep: float = _shown("PUMP_WAIT.SLEEP", "mean lag of the event loop (how late its timers are), in ms")
    pump_wait_notify: float = _shown(
        "PUMP_WAIT.NOTIFY", "mean time between a call being passed to the event loop and its execution, in ms"
    )

    # -- beyond it ------------------------------------------------------------------------------------------------

    time_ms: int = _shown("TIME_MS", "when the sample was taken, in ms since 1970 (UTC)")
    loop_lag_p50: float = _shown("LOOP.LAG_P50", "median lag of the event loop, in ms")
    loop_lag_p99: float = _shown("LOOP.LAG_P99", "p99 of the same, in ms")
    loop_lag_max: float = _shown("LOOP.LAG_MAX", "maximum of the same, in ms")
    age_p50: float = _shown("AGE.P50", "median age of data when it is written, in ms")
    age_p99: float = _shown("AGE.P99", "p99 of the same, in ms")
    age_max: float = _shown("AGE.MAX", "maximum of the same, in ms")
    unsent_bytes: int = _shown("UNSENT.BYTES", "bytes written to connections that their peers do not read")
    unsent_connections: int = _shown("UNSENT.CONNECTIONS", "connections with such bytes")
    waiting_bytes: int = _shown("WAITING.BYTES", "all bytes waiting for clients, including unsent ones")
    updates_filtered_sec: float = _shown(
        "UPDATES.FILTERED_SEC",
        "updates per second left out because of a frequency limit, a bandwidth limit or a slow client",
    )
    updates_lost_sec: float = _shown("UPDATES.LOST_SEC", "updates per second lost because a buffer was full")
    journal_appends_sec: float = _shown("JOURNAL.APPENDS_SEC", "records appended to the journal per second")
    journal_syncs_sec: float = _shown("JOURNAL.SYNCS_SEC", "syncs of the journal's disk per second")
    journal_sync_p99: float = _shown("JOURNAL.SYNC_P99", "p99 of the duration of a sync, in ms")
    journal_bytes: int = _shown("JOURNAL.BYTES", "size of the journal, in bytes")
    journal_failed: int = _shown("JOURNAL.FAILED", "1 while the journal cannot be written, else 0")
    ditto_commands_sec: float = _shown("DITTO.COMMANDS_SEC", "commands of Ditto clients per second")
    ditto_events_sec: float = _shown("DITTO.EVENTS_SEC", "changes of things and policies per second")
    ditto_streams: int = _shown("DITTO.STREAMS", "WebSockets and event streams of Ditto clients")
    tlex_sessions: int = _shown("TLEX.SESSIONS", "sessions of TLEX clients")
    tlex_payloads_sec: float = _shown("TLEX.PAYLOADS_SEC", "payloads published by TLEX clients per second")
    tlex_dropped: int = _shown("TLEX.DROPPED", "payloads dropped because their receiver was too slow, since the start")
    adapters_calls_sec: float = _shown("ADAPTERS.CALLS_SEC", "calls to adapters per second")
    adapters_failed: int = _shown("ADAPTERS.FAILED", "adapters that have failed or cannot work at the moment")
    cpu_percent: float = _shown("CPU.PERCENT", "CPU usage of all processes, in percent of one core")
    memory_rss: int = _shown("MEMORY.RSS", "memory that all processes use, in bytes")
    descriptors_open: int = _shown("DESCRIPTORS.OPEN", "open file descriptors")
    descriptors_limit: int = _shown("DESCRIPTORS.LIMIT", "file descriptors that all processes together may have")
    pipeline_queries: int = _shown("PIPELINE.QUERIES", "running queries of the pipeline")
    pipeline_lag: float = _shown("PIPELINE.LAG", "lag of the slowest of them behind the journal, in ms")


# Fields of monitor_statistics, in the order in which they are shown, and the attributes that they show.
FIELDS: dict[str, str] = {each.metadata["field"]: each.name for each in fields(ServerStatistics)}
MEANINGS: dict[str, str] = {each.metadata["field"]: each.metadata["meaning"] for each in fields(ServerStatistics)}
