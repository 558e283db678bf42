from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.envelope import (
    HEAD_SIZE,
    JOINING_SECONDS,
    MAX_JOINING,
    OVERHEAD,
    EnvelopeError,
    HubNews,
    Joiner,
    Sort,
    decode_audience,
    decode_envelope,
    decode_news,
    encode_audience,
    encode_envelope,
    encode_news,
    split,
)


def test_what_is_encoded_is_decoded() -> None:
    assert decode_envelope(encode_envelope(Sort.ASK, 7)) == (Sort.ASK, 7)
    data = encode_audience(Sort.JOIN, 2**63, 12)
    assert (decode_envelope(data), decode_audience(data)) == ((Sort.JOIN, 2**63), 12)
    news = HubNews(1, "1.2", "node", "run")
    assert decode_news(encode_news(3, news)) == news


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x00" * HEAD_SIZE, b"\xff" + b"\x00" * 8])
def test_bytes_that_are_no_envelope_are_refused(data: bytes) -> None:
    with pytest.raises(EnvelopeError, match="not an envelope"):
        decode_envelope(data)


@given(st.binary())
def test_nothing_else_is_raised_for_any_bytes(body: bytes) -> None:
    joiner = Joiner()
    for kind in (Sort.PART, Sort.NEWS, Sort.JOIN):
        data = encode_envelope(kind, 1, body)
        for read in (decode_news, decode_audience, lambda part: joiner.add("edge", part, 0.0)):
            with contextlib.suppress(EnvelopeError):
                read(data)


@given(st.binary(max_size=300), st.integers(OVERHEAD + 1, 120), st.randoms())
def test_parts_in_any_order_and_repeated_make_the_whole_once(payload: bytes, room: int, chance: random.Random) -> None:
    parts = list(split(5, 1, payload, room))
    assert all(len(part) <= room for part in parts)
    if decode_envelope(parts[0])[0] is Sort.WHOLE:
        assert parts[0][HEAD_SIZE:] == payload
        return
    joiner = Joiner()
    last = chance.choice(parts)
    others = [part for part in parts if part != last] * 2
    chance.shuffle(others)
    assert [joiner.add("edge", part, 0.0) for part in others] == [None] * len(others)
    assert joiner.add("edge", last, 0.0) == payload


def test_parts_of_several_senders_and_payloads_do_not_mix() -> None:
    joiner = Joiner()
    first, second = list(split(5, 1, b"a" * 80, 80)), list(split(5, 2, b"b" * 80, 80))
    other = list(split(5, 1, b"c" * 80, 80))
    for each in (first[0], second[0]):
        assert joiner.add("one", each, 0.0) is None
    assert joiner.add("two", other[0], 0.0) is None
    assert joiner.add("one", second[1], 0.0) == b"b" * 80
    assert joiner.add("two", other[1], 0.0) == b"c" * 80
    assert joiner.add("one", first[1], 0.0) == b"a" * 80


def test_a_part_that_was_changed_on_the_way_spoils_the_whole() -> None:
    joiner = Joiner()
    first, second = split(5, 1, b"a" * 80, 80)
    joiner.add("one", first[:-1] + b"b", 0.0)
    with pytest.raises(EnvelopeError, match="not what was sent"):
        joiner.add("one", second, 0.0)
    assert joiner.dropped == 1


def test_what_waits_for_lost_parts_is_given_up() -> None:
    joiner = Joiner()
    for number in range(MAX_JOINING + 1):
        joiner.add("one", next(iter(split(5, number, b"a" * 100, 80))), 0.0)
    assert joiner.dropped == 1
    joiner.expire(JOINING_SECONDS + 1)
    assert joiner.dropped == MAX_JOINING + 1
