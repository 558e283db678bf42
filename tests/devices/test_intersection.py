"""The simulated intersections: no two directions that cross are ever let through together."""

from __future__ import annotations

import json

import pytest

from penstock.devices.intersection import AMBER, GREEN, RED, TOWN, Intersection

CROSSING = Intersection("PSDM0001", "Mill Bridge", 0.25, 0.5, 7.0, 0.0)
CYCLE = 2 * CROSSING.phase


@pytest.mark.parametrize("intersection", TOWN, ids=lambda each: each.identifier)
def test_one_of_two_crossing_directions_is_always_red(intersection: Intersection) -> None:
    for tick in range(int(20 * intersection.phase)):
        signals = intersection.signals(tick / 10)
        assert signals["N"] == signals["S"]
        assert signals["E"] == signals["W"]
        assert RED in (signals["N"][0], signals["E"][0])


def test_a_signal_is_green_then_amber_then_red() -> None:
    seen = [CROSSING.signals(tick / 10)["N"][0] for tick in range(int(CYCLE * 10))]
    changes = [each for index, each in enumerate(seen) if index == 0 or seen[index - 1] != each]
    assert changes == [GREEN, AMBER, RED]


def test_what_is_left_is_the_time_until_the_signal_changes() -> None:
    for start in range(int(CYCLE)):
        for approach, (signal, left) in CROSSING.signals(start + 0.25).items():
            assert left > 0
            assert CROSSING.signals(start + 0.25 + left - 0.01)[approach][0] == signal
            assert CROSSING.signals(start + 0.25 + left + 0.01)[approach][0] != signal


def test_identifiers_are_those_that_tlex_allows_and_no_two_are_the_same() -> None:
    identifiers = [each.identifier for each in TOWN]
    assert all(len(each) == 8 and each.isascii() for each in identifiers)
    assert len(set(identifiers)) == len(identifiers)


def test_a_payload_says_all_that_the_map_needs() -> None:
    payload = json.loads(CROSSING.payload(1.0))
    assert payload["name"] == "Mill Bridge"
    assert (payload["x"], payload["y"]) == (0.25, 0.5)
    assert payload["signals"]["N"] == {"signal": "green", "left": 6.0}
    assert payload["signals"]["E"] == {"signal": "red", "left": 9.0}
