from __future__ import annotations

from penstock.exchange.counters import Counters, Traffic


def test_nothing_is_counted_before_anything_has_come() -> None:
    counters, traffic = Counters(), Traffic()
    assert {name: getattr(counters, name) for name in Counters.__slots__} == dict.fromkeys(Counters.__slots__, 0)
    assert (traffic.payloads, traffic.bytes, traffic.last_seen) == (0, 0, 0)
    assert (traffic.rate, traffic.throughput) == (0.0, 0.0)


def test_a_sum_of_counters_is_one_of_each_of_them() -> None:
    one, other = Counters(), Counters()
    for number, name in enumerate(Counters.__slots__):
        setattr(one, name, number)
        setattr(other, name, 100)
    found = Counters.sum([one, other])
    assert [getattr(found, name) for name in Counters.__slots__] == list(range(100, 100 + len(Counters.__slots__)))


def test_the_first_measurement_is_of_no_time() -> None:
    traffic = Traffic()
    traffic.payloads, traffic.bytes = 4, 800
    traffic.measure(0.0)
    assert (traffic.rate, traffic.throughput) == (0.0, 0.0)


def test_rates_are_between_two_measurements_and_stay_what_they_are_if_no_time_has_passed() -> None:
    traffic = Traffic()
    traffic.measure(100.0)
    traffic.payloads, traffic.bytes = 4, 800
    traffic.measure(102.0)
    assert (traffic.rate, traffic.throughput) == (2.0, 400.0)
    traffic.payloads = 5
    traffic.measure(102.0)
    assert (traffic.rate, traffic.throughput) == (2.0, 400.0)
    traffic.payloads, traffic.bytes = 6, 840
    traffic.measure(104.0)
    assert (traffic.rate, traffic.throughput) == (0.5, 20.0)
