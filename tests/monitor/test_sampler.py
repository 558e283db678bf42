"""The sampler: rates, maxima and quantiles of figures, with a clock that the test moves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from penstock.monitor.figures import Family, Kind, counter, durations, gauge, labelled
from penstock.monitor.histogram import Histogram
from penstock.monitor.sampler import MAX_POINTS, SAMPLES_PER_POINT, Sampler
from penstock.monitor.statistics import ServerStatistics


class Source:
    """Figures that the test sets, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.values: dict[str, float] = {}
        self.others: list[Family] = []
        self.sampler = Sampler(self.figures, lambda: self.now, lambda: int(self.now * 1000))

    def figures(self) -> Iterable[Family]:
        return [*[counter(name, "", value) for name, value in self.values.items()], *self.others]

    def sample(self, seconds: float = 1.0, **values: float) -> ServerStatistics:
        self.now += seconds
        self.values |= values
        return self.sampler.sample()


@pytest.fixture
def source() -> Source:
    return Source()


def test_before_the_first_sample_everything_is_zero(source: Source) -> None:
    assert source.sampler.latest == ServerStatistics()
    assert not source.sampler.history


def test_a_rate_is_what_came_divided_by_the_time_that_passed(source: Source) -> None:
    source.sample(penstock_updates_sent=100)
    found = source.sample(2.0, penstock_updates_sent=700)
    assert (found.updates_events_sec, found.updates_total_out) == (300.0, 700)
    assert source.sample(1.0).updates_events_sec == 0.0


def test_a_counter_that_begins_anew_does_not_count_backwards(source: Source) -> None:
    source.sample(penstock_adapter_calls=100)
    assert source.sample(penstock_adapter_calls=10).adapters_calls_sec == 0.0


def test_two_samples_at_the_same_moment_have_no_rate(source: Source) -> None:
    source.sample(penstock_updates_sent=100)
    assert source.sample(0.0, penstock_updates_sent=200).updates_events_sec == 0.0


def test_bandwidth_is_in_kilobits_and_its_highest_value_stays(source: Source) -> None:
    source.sample(penstock_sent_bytes=0, penstock_sessions=4)
    found = source.sample(penstock_sent_bytes=125_000)
    assert (found.bandwidth_current, found.bandwidth_highest, found.bandwidth_client_average) == (1000.0, 1000.0, 250.0)
    found = source.sample(penstock_sent_bytes=125_000)
    assert (found.bandwidth_current, found.bandwidth_highest) == (0.0, 1000.0)


def test_messages_count_two_bytes_a_character(source: Source) -> None:
    source.sample(penstock_message_characters=0)
    found = source.sample(penstock_message_characters=500)
    assert (found.messages_total_bytes, found.messages_current_throughput) == (1000, 8.0)


def test_samples_of_a_family_are_added_and_also_known_by_their_label(source: Source) -> None:
    transports = {"websocket": 5, "http-streaming": 2, "http-polling": 1, "none": 9}
    source.others = [labelled(Kind.GAUGE, "penstock_sessions_by_transport", "", "transport", transports)]
    source.others.append(labelled(Kind.GAUGE, "penstock_connections", "", "port", {"stream": 7, "api": 3}))
    found = source.sample()
    assert (found.clients_streaming_sessions, found.clients_polling_sessions) == (7, 1)
    assert found.clients_connections == 10


def test_quantiles_are_of_the_time_since_the_last_sample(source: Source) -> None:
    lags = Histogram()
    source.others = [durations("penstock_loop_lag_seconds", "", lags)]
    for _ in range(99):
        lags.add(0.001)
    lags.add(0.4)
    found = source.sample()
    assert found.loop_lag_max == 400.0
    assert 0.7 <= found.loop_lag_p50 <= 1.0
    assert 0.7 <= found.loop_lag_p99 <= 1.0
    assert found.pump_wait_sleep == pytest.approx(4.99)
    lags.add(0.002)
    found = source.sample()
    assert (found.loop_lag_max, found.loop_lag_p99 <= 2.0) == (2.0, True)
    assert source.sample().loop_lag_max == 0.0


def test_memory_that_is_used_is_the_difference_of_total_and_free(source: Source) -> None:
    source.others = [
        gauge("penstock_process_resident_memory_bytes", "", 300),
        gauge("penstock_process_available_memory_bytes", "", 700),
    ]
    found = source.sample()
    assert (found.memory_total, found.memory_free, found.memory_rss) == (1000, 700, 300)


def test_the_history_is_an_hour_of_points_five_seconds_apart(source: Source) -> None:
    count = SAMPLES_PER_POINT * (MAX_POINTS + 3)
    for _ in range(count):
        source.sample()
    times = [point.time_ms for point in source.sampler.history]
    assert len(times) == 720
    assert {after - before for before, after in itertools.pairwise(times)} == {5_000}
    assert times[-1] == 101_000 + (count - SAMPLES_PER_POINT) * 1000


def test_those_who_listen_hear_every_sample_until_they_stop(source: Source) -> None:
    heard: list[ServerStatistics] = []
    stop = source.sampler.listen(heard.append)
    found = source.sample()
    stop()
    stop()
    source.sample()
    assert heard == [found]


def test_a_listener_that_fails_does_not_keep_others_from_hearing(source: Source) -> None:
    def fails(found: ServerStatistics) -> None:
        raise ValueError("as tests do")

    heard: list[ServerStatistics] = []
    source.sampler.listen(fails)
    source.sampler.listen(heard.append)
    source.sample()
    assert heard == [source.sampler.latest]
