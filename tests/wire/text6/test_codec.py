from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.ports import Codec
from penstock.testing.text6_push import Update, parse_push
from penstock.wire.text6.codec import Text6Codec
from penstock.wire.text6.values import decode_values

# Annotated: the type checker then compares it with what the kernel needs.
CODEC: Codec = Text6Codec()
SKIPPED = "The specified progressive number has been skipped by timeout"


def update(table: int, item: int, values: tuple[str | None, ...], previous: tuple[str | None, ...] | None) -> bytes:
    return CODEC.update_prefix(table, item) + CODEC.update_body(values, previous, (), 0)[0]


# Every event of the kernel, and what this protocol says of it.
EVENTS: list[tuple[str, bytes, bytes]] = [
    ("update_body", update(1, 1, ("10.5", "+12.5%", "12:55:56"), None), b"1,1|10.5|+12.5%|12:55:56\r\n"),
    ("update_body", update(1, 1, ("SPORT", "", None), None), b"1,1|SPORT|$|#\r\n"),
    (
        "update_body",
        update(1, 1, ("SPORT", 'ZIDANE ELECTED "MVP"', ""), ("SPORT", "", "")),
        b"1,1||ZIDANE ELECTED \\u0022MVP\\u0022|\r\n",
    ),
    ("update_body", update(2, 1, ("6,55", "-8,9", "13:34:59"), None), b"2,1|6,55|-8,9|13:34:59\r\n"),
    ("update_body", update(12, 34, ("same",), ("same",)), b"12,34|\r\n"),
    ("update_prefix", CODEC.update_prefix(1_000_000, 30), b"1000000,30|"),
    ("end_of_snapshot", CODEC.end_of_snapshot(3, 1), b"3,1,EOS\r\n"),
    ("overflow", CODEC.overflow(3, 1, 5), b"3,1,OV5\r\n"),
    ("message_done", CODEC.message_done("Orders_Sequence", 3, ""), b"MSG,Orders_Sequence,3,DONE\r\n"),
    ("message_done", CODEC.message_done("s", 3, "a response"), b"MSG,s,3,DONE\r\n"),
    ("message_done", CODEC.message_done(None, 3, ""), b"MSG,UNORDERED_MESSAGES,3,DONE\r\n"),
    ("message_failed", CODEC.message_failed("s", 4, 38, SKIPPED), f"MSG,s,4,ERR,38,{SKIPPED}\r\n".encode()),
    ("message_failed", CODEC.message_failed("s", 9, 39, "5"), b"MSG,s,9,ERR,39,5\r\n"),
    ("message_failed", CODEC.message_failed(None, 1, -7, "no, no"), b"MSG,UNORDERED_MESSAGES,1,ERR,-7,no, no\r\n"),
    (
        "message_failed",
        CODEC.message_failed("s", 1, 0, "é\r\nEND 31"),
        b"MSG,s,1,ERR,0,\\u00E9\\u000D\\u000AEND 31\r\n",
    ),
    ("probe", CODEC.probe(), b"PROBE\r\n"),
    ("loop", CODEC.loop(5_000), b"LOOP 5000\r\n"),
    ("loop", CODEC.loop(1), b"LOOP 1\r\n"),
    ("loop", CODEC.loop(0), b"LOOP\r\n"),
    ("end", CODEC.end(31, "Destroy invoked by client"), b"END 31\r\n"),
    ("end", CODEC.end(48, ""), b"END 48\r\n"),
    ("end", CODEC.end(-5, "a\r\nb"), b"END -5\r\n"),
    ("end", CODEC.end(0, ""), b"END 0\r\n"),
    ("subscribed", CODEC.subscribed(3, 1, 10), b""),
    ("subscribed_command", CODEC.subscribed_command(3, 1, 10, 1, 2), b""),
    ("unsubscribed", CODEC.unsubscribed(3), b""),
    ("configured", CODEC.configured(3, 3.0, True), b""),
    ("snapshot_cleared", CODEC.snapshot_cleared(3, 1), b""),
    ("constrained", CODEC.constrained(50.0, True), b""),
    ("recovering", CODEC.recovering(7), b""),
    ("synchronized", CODEC.synchronized(120), b""),
]


@pytest.mark.parametrize(("event", "found", "expected"), EVENTS)
def test_every_event_is_written_as_chapter_4_5_has_it_or_is_nothing(event: str, found: bytes, expected: bytes) -> None:
    assert found == expected, event


def test_the_table_above_has_every_event_of_the_kernel() -> None:
    events = {name for name, _ in inspect.getmembers(Codec, inspect.isfunction) if not name.startswith("_")}
    assert {event for event, _, _ in EVENTS} == events


def test_values_are_always_whole_whatever_differences_are_on_offer() -> None:
    before, after = ("x" * 100 + "a",), ("x" * 100 + "b",)
    assert CODEC.update_body(after, before, ("PT",), 1) == (f"{after[0]}\r\n".encode(), 0)


@given(
    st.integers(1, 10**15 - 1),
    st.integers(1, 10**6),
    st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=6),
)
def test_any_update_is_one_line_that_a_client_reads_back(table: int, item: int, values: list[str | None]) -> None:
    line = update(table, item, tuple(values), None)
    assert line.endswith(b"\r\n")
    assert line.count(b"\r") == line.count(b"\n") == 1
    found = parse_push(line[:-2].decode("ascii"))
    assert isinstance(found, Update)
    assert (found.table, found.item) == (table, item)
    assert decode_values(found.values, None, len(values)) == tuple(values)
