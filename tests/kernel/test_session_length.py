"""Connections of limited length: LOOP in time, never a broken line. TLCP chapter 2, `LS_content_length`."""

from __future__ import annotations

import pytest

from penstock.kernel.session import Binding
from penstock.testing import Harness

QUIET = Binding(send_sync=False)


@pytest.mark.parametrize("limit", range(300, 420))
def test_a_stream_ends_with_loop_before_its_length_is_passed_and_goes_on_where_it_stopped(limit: int) -> None:
    harness = Harness()
    session, channel = harness.open(QUIET, limit=limit)
    harness.subscribe(session, 1, "a", "x", max_frequency=None)
    expected = ["SUBOK,1,1,1", "CONF,1,unlimited,filtered"]
    found = []
    for number in range(30):
        value = str(number) * (number % 7 + 1)
        harness.publish("a", x=value)
        expected.append(f"U,1,1,{value}")
        if channel.finished:
            lines = channel.take()
            assert channel.size <= limit
            assert lines[-1] == "LOOP,0"
            found += lines[2:-1]
            channel = harness.bind(session, QUIET, limit)
    found += channel.take()[2:]
    assert found == expected


def test_a_line_longer_than_a_whole_connection_goes_alone_on_a_fresh_one(harness: Harness) -> None:
    session, channel = harness.open(QUIET, limit=500)
    harness.subscribe(session, 1, "a", "x")
    channel.take()
    harness.source.publish("a", {"x": "short"})
    harness.source.publish("a", {"x": "l" * 1_000})
    harness.source.publish("a", {"x": "again"})
    harness.turn()
    assert channel.take() == ["U,1,1,short", "LOOP,0"]
    channel = harness.bind(session, QUIET, 500)
    assert channel.take()[2:] == ["U,1,1," + "l" * 1_000, "LOOP,0"]
    channel = harness.bind(session, QUIET, 500)
    assert channel.take()[2:] == ["U,1,1,again"]


def test_lines_are_split_between_connections_by_bytes_not_by_characters(harness: Harness) -> None:
    session, channel = harness.open(QUIET, limit=400)
    harness.subscribe(session, 1, "a", "x")
    channel.take()
    harness.source.publish("a", {"x": "1"})
    harness.source.publish("a", {"x": "\U0001f600" * 60})
    harness.turn()
    assert channel.size <= 400
    assert channel.take() == ["U,1,1,1", "LOOP,0"]


def test_a_probe_or_a_constraint_that_does_not_fit_becomes_a_loop(harness: Harness) -> None:
    session, channel = harness.open(Binding(keepalive_millis=1_000, send_sync=False), limit=220)
    channel.take()
    harness.advance(60.0)
    lines = channel.take()
    assert lines == ["PROBE"] * (len(lines) - 1) + ["LOOP,0"]
    assert channel.size <= 220
    channel = harness.bind(session, QUIET, limit=220)
    for _ in range(20):
        session.constrain(1_000_000.0)
    assert channel.size <= 220
    assert channel.take()[-1] == "LOOP,0"


def test_what_did_not_fit_is_still_there_for_a_recovery_from_an_earlier_point(harness: Harness) -> None:
    session, channel = harness.open(QUIET, limit=300)
    harness.subscribe(session, 1, "a", "x")
    for number in range(8):
        harness.source.publish("a", {"x": str(number) * 30})
    harness.turn()
    sent = [line for line in channel.take() if line.split(",")[0] in ("SUBOK", "CONF", "U")]
    assert len(sent) < 10
    harness.publish("a", x="later")
    channel = harness.bind(session, QUIET, recovery_from=1)
    assert channel.take()[2:] == [
        "PROG,1",
        "CONF,1,unlimited,filtered",
        *[f"U,1,1,{str(number) * 30}" for number in range(8)],
        "U,1,1,later",
    ]
    channel.cut()
    channel = harness.bind(session, QUIET, recovery_from=5)
    assert channel.take()[2:4] == ["PROG,5", "U,1,1," + "3" * 30]
