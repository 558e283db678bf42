from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlex.datagrams import IdentifiedPayload, Payload, decode
from penstock.wire.tlex.frames import PREAMBLE, FrameReader
from penstock.wire.tlex.payloads import (
    identifier_of,
    is_reserved,
    payload_size,
    payload_type,
    with_identifier,
    without_identifier,
)
from tests.wire.tlex.cases import LARGEST, LARGEST_IDENTIFIED, LATEST

IDENTIFIER = "NLZH0023"
PAYLOAD = st.builds(Payload, st.integers(0, 0xFF), st.integers(0, LATEST), st.binary(max_size=300))


@given(PAYLOAD)
def test_an_identifier_is_added_and_taken_away_and_nothing_else_changes(payload: Payload) -> None:
    plain = payload.encode()
    identified = with_identifier(plain, IDENTIFIER.encode())
    assert identified is not None
    assert decode(identified) == IdentifiedPayload(IDENTIFIER, payload.type, payload.origin, payload.data)
    assert identifier_of(identified) == IDENTIFIER.encode()
    assert without_identifier(identified) == plain


@given(PAYLOAD)
def test_type_and_size_of_a_payload_are_seen_in_both_kinds_of_frames(payload: Payload) -> None:
    identified = IdentifiedPayload(IDENTIFIER, payload.type, payload.origin, payload.data)
    for whole in (payload.encode(), identified.encode()):
        assert payload_type(whole) == payload.type
        assert payload_size(whole) == len(payload.data)


def test_a_payload_too_large_for_an_identifier_is_not_made_a_broken_frame() -> None:
    largest = with_identifier(Payload(1, 2, b"x" * LARGEST_IDENTIFIED).encode(), IDENTIFIER.encode())
    assert largest is not None
    assert largest[:4] == bytes.fromhex("AA BB FF FF")
    assert FrameReader().feed(PREAMBLE + largest) == [largest]
    for size in (LARGEST_IDENTIFIED + 1, LARGEST):
        assert with_identifier(Payload(1, 2, b"x" * size).encode(), IDENTIFIER.encode()) is None


def test_the_largest_payload_loses_its_identifier() -> None:
    whole = IdentifiedPayload(IDENTIFIER, 1, 2, b"x" * LARGEST_IDENTIFIED).encode()
    assert decode(without_identifier(whole)) == Payload(1, 2, b"x" * LARGEST_IDENTIFIED)


@pytest.mark.parametrize(
    ("type_", "reserved"), [(0x00, False), (0x02, False), (0xEF, False), (0xF0, True), (0xF1, True), (0xFF, True)]
)
def test_the_last_sixteen_payload_types_are_reserved(type_: int, reserved: bool) -> None:
    assert is_reserved(type_) is reserved
