"""The sampler: once a second it makes statistics of all figures, with rates, maxima and quantiles, and keeps an hour.

Who calls it, and where figures come from, is its owner's business. Read next: `statistics`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from penstock.log import get
from penstock.monitor.figures import Family, merged
from penstock.monitor.histogram import Span
from penstock.monitor.readings import Readings
from penstock.monitor.statistics import ServerStatistics

log = get(__name__)

# Samples between two points of the history, and how many points are kept: an hour, at one sample a second.
SAMPLES_PER_POINT = 5
MAX_POINTS = 720

# Decimals of rates and times: more would be noise.
DECIMALS = 3

SampleListener = Callable[[ServerStatistics], None]


class Sampler:
    """`sample` is called once a second, on the event loop."""

    def __init__(
        self,
        figures: Callable[[], Iterable[Family]],
        clock: Callable[[], float],
        millis: Callable[[], int],
    ) -> None:
        """`clock` gives seconds that never go back; `millis` is the time of day since 1970."""
        self._figures = figures
        self._clock = clock
        self._millis = millis
        self._listeners: list[SampleListener] = []
        self._count = 0
        self._sampled_at = clock()
        self._seconds = 0.0
        self._readings = Readings()
        self._spans: dict[str, Span] = {}
        self._most: dict[str, float] = {}
        # All zero until the first sample.
        self.latest = ServerStatistics()
        # The oldest first.
        self.history: deque[ServerStatistics] = deque(maxlen=MAX_POINTS)

    def listen(self, listener: SampleListener) -> Callable[[], None]:
        """Have it called with every sample from now on; returns what ends that."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def sample(self) -> ServerStatistics:
        """Take a sample, keep it, and tell those who listen."""
        now = self._clock()
        self._seconds, self._sampled_at = now - self._sampled_at, now
        self._read()
        self.latest = self._statistics()
        if self._count % SAMPLES_PER_POINT == 0:
            self.history.append(self.latest)
        self._count += 1
        for listener in self._listeners.copy():
            try:
                listener(self.latest)
            except Exception:
                log.exception("a listener for statistics failed")
        return self.latest

    # -- what figures say -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        families = merged(self._figures())
        self._readings.take(families)
        for family in families:
            if family.histograms:
                self._spans.setdefault(family.name, Span()).look(family.histograms)

    def _whole(self, name: str, label: str | None = None) -> int:
        return int(self._readings.sum(name, label))

    def _total(self, name: str) -> int:
        return int(self._readings.total(name))

    def _own(self, name: str) -> int:
        return int(self._readings.own(name))

    def _value(self, name: str, factor: float = 1.0) -> float:
        return round(self._readings.sum(name) * factor, DECIMALS)

    def _rate(self, name: str, factor: float = 1.0) -> float:
        """Per second; what begins anew, such as that of an adapter set that was reloaded, does not count backwards."""
        return self._per_second(self._readings.grown(name) * factor)

    def _own_rate(self, name: str) -> float:
        return self._per_second(self._readings.own_grown(name))

    def _per_second(self, grown: float) -> float:
        return round(grown / self._seconds, DECIMALS) if self._seconds > 0 else 0.0

    def _most_of(self, name: str, value: float) -> float:
        """The largest so far."""
        self._most[name] = most = max(value, self._most.get(name, 0.0))
        return most

    def _peak(self, name: str, most: str) -> int:
        """Of one process, the most that it says; of several, the most that they have had in any sample together."""
        return int(max(self._most_of(name, self._readings.sum(name)), self._readings.largest(most)))

    def _ratio(self, over: str, under: str, factor: float = 1.0) -> float:
        below = self._rate(under)
        return round(self._rate(over) / below * factor, DECIMALS) if below else 0.0

    def _span(self, name: str) -> Span:
        return self._spans.get(name) or Span()

    def _statistics(self) -> ServerStatistics:
        """Of all processes together, as far as they can be added up: what the hub has and others copy counts once."""
        whole, total, own, value, rate = self._whole, self._total, self._own, self._value, self._rate
        rss = whole("penstock_process_resident_memory_bytes")
        # Processes of one machine all see the same; of several machines the one with the least matters.
        free = int(self._readings.least("penstock_process_available_memory_bytes"))
        loops = max(1, self._readings.processes)
        threads, active = whole("penstock_adapter_threads"), whole("penstock_adapter_threads_busy")
        sessions = whole("penstock_sessions")
        polling = whole("penstock_sessions_by_transport", "http-polling")
        polling += whole("penstock_sessions_by_transport", "websocket-polling")
        streaming = whole("penstock_sessions_by_transport", "http-streaming")
        streaming += whole("penstock_sessions_by_transport", "websocket")
        bandwidth = rate("penstock_sent_bytes", KILOBITS)
        messages = rate("penstock_message_characters", UTF16 * KILOBITS)
        connections, slow = whole("penstock_connections"), whole("penstock_unsent_connections")
        lag, age = self._span("penstock_loop_lag_seconds"), self._span("penstock_update_age_seconds")
        sync, handed = self._span("penstock_journal_sync_seconds"), self._span("penstock_loop_turn_seconds")
        return ServerStatistics(
            memory_total=rss + free,
            memory_free=free,
            threads=whole("penstock_process_threads"),
            pool_size=threads,
            pool_active=min(threads, active),
            pool_waiting=max(0, threads - active),
            pool_queue=whole("penstock_adapter_calls_pending"),
            pool_queue_wait=self._ratio("penstock_adapter_wait_seconds", "penstock_adapter_thread_calls", MILLIS),
            nio_write_queue=slow,
            nio_write_queue_wait=round(value("penstock_unsent_seconds", MILLIS) / slow, DECIMALS) if slow else 0.0,
            nio_write_selectors=loops,
            nio_total_selectors=loops,
            clients_connections=connections,
            clients_max_connections=int(self._most_of("connections", connections)),
            clients_sessions=sessions,
            clients_max_sessions=self._peak("penstock_sessions", "penstock_sessions_most"),
            clients_refused_sessions=total("penstock_sessions_refused"),
            clients_streaming_sessions=streaming,
            clients_polling_sessions=polling,
            clients_item_subscr=whole("penstock_item_subscriptions"),
            clients_max_item_subscr=self._peak("penstock_item_subscriptions", "penstock_item_subscriptions_most"),
            items_total=own("penstock_items"),
            items_events_sec=self._own_rate("penstock_events_received"),
            items_filtered_events_sec=self._own_rate("penstock_events_passed"),
            updates_events_sec=rate("penstock_updates_sent"),
            updates_total_in=own("penstock_events_received"),
            updates_total_out=total("penstock_updates_sent"),
            updates_total_lost=total("penstock_updates_lost"),
            bandwidth_total_bytes=total("penstock_sent_bytes"),
            bandwidth_current=bandwidth,
            bandwidth_highest=self._most_of("bandwidth", bandwidth),
            bandwidth_allocated=value("penstock_allocated_bandwidth_bytes_per_second", KILOBITS),
            bandwidth_client_average=round(bandwidth / sessions, DECIMALS) if sessions else 0.0,
            messages_events_sec=rate("penstock_messages"),
            messages_total_handled=total("penstock_messages"),
            messages_total_bytes=UTF16 * total("penstock_message_characters"),
            messages_current_throughput=messages,
            messages_highest_throughput=self._most_of("messages", messages),
            push_notifications_devices=whole("penstock_push_devices"),
            push_notifications_max_devices=whole("penstock_push_devices_most"),
            push_notifications_notifications_sec=rate("penstock_push_notifications"),
            push_notifications_total_sent=whole("penstock_push_notifications"),
            push_notifications_total_bytes=whole("penstock_push_notification_bytes"),
            push_notifications_current_throughput=rate("penstock_push_notification_bytes", KILOBITS),
            pump_wait_sleep=_millis(lag.mean),
            pump_wait_notify=_millis(handed.mean),
            time_ms=self._millis(),
            loop_lag_p50=_millis(lag.quantile(0.5)),
            loop_lag_p99=_millis(lag.quantile(0.99)),
            loop_lag_max=_millis(lag.peak),
            age_p50=_millis(age.quantile(0.5)),
            age_p99=_millis(age.quantile(0.99)),
            age_max=_millis(age.peak),
            unsent_bytes=whole("penstock_unsent_bytes"),
            unsent_connections=slow,
            waiting_bytes=whole("penstock_waiting_bytes"),
            updates_filtered_sec=rate("penstock_updates_filtered"),
            updates_lost_sec=rate("penstock_updates_lost"),
            journal_appends_sec=rate("penstock_journal_records"),
            journal_syncs_sec=rate("penstock_journal_syncs"),
            journal_sync_p99=_millis(sync.quantile(0.99)),
            journal_bytes=whole("penstock_journal_size_bytes"),
            journal_failed=whole("penstock_journal_failed"),
            ditto_commands_sec=rate("penstock_ditto_commands"),
            ditto_events_sec=rate("penstock_ditto_changes"),
            ditto_streams=whole("penstock_ditto_streams"),
            tlex_sessions=whole("penstock_tlex_sessions"),
            tlex_payloads_sec=rate("penstock_tlex_payloads"),
            tlex_dropped=whole("penstock_tlex_payloads_dropped"),
            adapters_calls_sec=rate("penstock_adapter_calls"),
            adapters_failed=whole("penstock_adapters_troubled"),
            cpu_percent=rate("penstock_process_cpu_seconds", 100.0),
            memory_rss=rss,
            descriptors_open=whole("penstock_process_open_descriptors"),
            descriptors_limit=whole("penstock_process_max_descriptors"),
            pipeline_queries=whole("penstock_pipeline_queries", "running"),
            pipeline_lag=value("penstock_pipeline_lag_seconds", MILLIS),
        )


# From bytes a second to kbit/s, from seconds to milliseconds; bytes of a character where it is kept.
KILOBITS = 8 / 1000
MILLIS = 1000.0
UTF16 = 2


def _millis(seconds: float) -> float:
    return round(seconds * MILLIS, DECIMALS)
