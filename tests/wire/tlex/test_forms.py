from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlex.datagrams import IdentifiedPayload, Payload, decode
from penstock.wire.tlex.forms import PayloadForms, for_monitor, restamped, with_identifier, without_identifier
from penstock.wire.tlex.frames import PREAMBLE, TlexFrameReader
from tests.wire.tlex.cases import LARGEST, LARGEST_IDENTIFIED, LATEST

IDENTIFIER = "NLZH0023"
FORMS = PayloadForms()
PAYLOAD = st.builds(Payload, st.integers(0, 0xFF), st.integers(0, LATEST), st.binary(max_size=300))


@given(PAYLOAD)
def test_an_identifier_is_added_and_taken_away_and_nothing_else_changes(payload: Payload) -> None:
    plain = payload.encode()
    identified = with_identifier(plain, IDENTIFIER.encode())
    assert identified is not None
    assert decode(identified) == IdentifiedPayload(IDENTIFIER, payload.type, payload.origin, payload.data)
    assert identified[FORMS.multiplex.identifier] == IDENTIFIER.encode()
    assert without_identifier(identified) == plain


@given(PAYLOAD)
def test_type_and_size_of_a_payload_are_seen_in_both_kinds_of_frames(payload: Payload) -> None:
    identified = IdentifiedPayload(IDENTIFIER, payload.type, payload.origin, payload.data)
    for whole, layout in ((payload.encode(), FORMS.singleplex), (identified.encode(), FORMS.multiplex)):
        assert whole[layout.type_at] == payload.type
        assert len(whole) - layout.head == len(payload.data)
    assert identified.encode()[FORMS.multiplex.identifier] == IDENTIFIER.encode()
    assert payload.encode()[FORMS.singleplex.identifier] == b""


def test_a_payload_too_large_for_an_identifier_is_not_made_a_broken_frame() -> None:
    largest = with_identifier(Payload(1, 2, b"x" * LARGEST_IDENTIFIED).encode(), IDENTIFIER.encode())
    assert largest is not None
    assert largest[:4] == bytes.fromhex("AA BB FF FF")
    assert TlexFrameReader().feed(PREAMBLE + largest) == [largest]
    for size in (LARGEST_IDENTIFIED + 1, LARGEST):
        assert with_identifier(Payload(1, 2, b"x" * size).encode(), IDENTIFIER.encode()) is None


def test_the_largest_payload_loses_its_identifier() -> None:
    whole = IdentifiedPayload(IDENTIFIER, 1, 2, b"x" * LARGEST_IDENTIFIED).encode()
    assert decode(without_identifier(whole)) == Payload(1, 2, b"x" * LARGEST_IDENTIFIED)


@pytest.mark.parametrize(
    ("type_", "reserved"), [(0x00, False), (0x02, False), (0xEF, False), (0xF0, True), (0xF1, True), (0xFF, True)]
)
def test_the_last_sixteen_payload_types_are_reserved(type_: int, reserved: bool) -> None:
    assert (type_ >= FORMS.first_reserved) is reserved


def test_many_frames_become_what_each_of_them_becomes() -> None:
    key, token = IDENTIFIER.encode(), b"token"
    plain = [Payload(1, 2, data).encode() for data in (b"a", b"", b"x" * LARGEST)]
    identified = [IdentifiedPayload(IDENTIFIER, 1, 2, data).encode() for data in (b"a", b"", b"x" * LARGEST_IDENTIFIED)]
    assert FORMS.identified(plain, key) == [identified[0], identified[1], None]
    assert FORMS.plain(identified) == [without_identifier(each) for each in identified]
    monitored = FORMS.monitored(identified, key, token, 7, 9)
    assert monitored == [for_monitor(each, key, token, 7, 9) for each in identified]
    assert monitored[2] is None
    waited = [each for each in monitored if each is not None]
    assert FORMS.restamped(waited, 11) == [restamped(each, 11) for each in waited]
    assert FORMS.restamped(waited, 11) == FORMS.monitored(identified[:2], key, token, 7, 11)


def test_the_longest_frame_is_the_longest() -> None:
    assert len(Payload(1, 2, b"x" * LARGEST).encode()) == FORMS.largest
