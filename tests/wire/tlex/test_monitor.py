from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlex.datagrams import MONITOR_TYPE, IdentifiedPayload, Payload, decode
from penstock.wire.tlex.errors import BadDatagram
from penstock.wire.tlex.forms import for_monitor, restamped
from penstock.wire.tlex.frames import PREAMBLE, TlexFrameReader
from penstock.wire.tlex.monitor import MonitorPayload, decode_monitor_payload
from tests.wire.tlex.cases import LARGEST_IDENTIFIED, LATEST, NOON, NOON_BYTES, TOKEN

STAMP = st.integers(0, LATEST)
ASCII = st.text(st.characters(max_codepoint=0x7F), max_size=60)
MONITOR_PAYLOAD = st.builds(MonitorPayload, ASCII, STAMP, STAMP, st.integers(0, 0xFF), st.binary(max_size=300))

# The largest payload that a monitor can be sent, with a token of the usual 43 characters.
LARGEST_MONITORED = 65_453


def attempt(data: bytes) -> MonitorPayload | BadDatagram:
    try:
        return decode_monitor_payload(data)
    except BadDatagram as error:
        return error


def test_the_header_of_a_monitor_payload_is_as_specified() -> None:
    payload = MonitorPayload("tok", 1, NOON, 0x02, b"abc")
    data = bytes.fromhex("00000003") + b"tok" + bytes.fromhex("0000000000000001") + NOON_BYTES + b"\x02abc"
    assert payload.encode() == data
    assert decode_monitor_payload(data) == payload


def test_a_payload_without_publisher_has_an_empty_token() -> None:
    data = bytes(4 + 8 + 8 + 1)
    assert decode_monitor_payload(data) == MonitorPayload("", 0, 0, 0, b"")
    assert MonitorPayload("", 0, 0, 0, b"").encode() == data


@given(MONITOR_PAYLOAD)
def test_what_is_written_is_read_again(payload: MonitorPayload) -> None:
    assert decode_monitor_payload(payload.encode()) == payload


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: bytes((0, 0, 0)) + data))
def test_any_bytes_are_a_monitor_payload_or_a_bad_one(data: bytes) -> None:
    found = attempt(data)
    if isinstance(found, BadDatagram):
        assert found.datagram == "Monitor payload (0xf0)"
    else:
        assert found.encode() == data


def test_a_frame_for_monitors_byte_for_byte() -> None:
    whole = bytes.fromhex("AA BB 00 0D 04 02") + NOON_BYTES + b"abc"
    expected = (
        bytes.fromhex("AA BB 00 55 05")
        + b"NLZH0023\xf0"
        + NOON_BYTES
        + bytes.fromhex("0000002B")
        + TOKEN.encode()
        + bytes.fromhex("0000000000000007 0000000000000009 02")
        + b"abc"
    )
    assert for_monitor(whole, b"NLZH0023", TOKEN.encode(), 7, 9) == expected


@given(MONITOR_PAYLOAD, STAMP)
def test_both_kinds_of_frames_are_the_same_to_a_monitor(payload: MonitorPayload, origin: int) -> None:
    token = payload.token.encode()
    for sent in (
        Payload(payload.type, origin, payload.data).encode(),
        IdentifiedPayload("tlc_0001", payload.type, origin, payload.data).encode(),
    ):
        whole = for_monitor(sent, b"tlc_0001", token, payload.published, payload.sent)
        assert whole == IdentifiedPayload("tlc_0001", MONITOR_TYPE, origin, payload.encode()).encode()


def test_a_payload_too_large_for_a_monitor_is_not_made_a_broken_frame() -> None:
    for size, fits in ((LARGEST_MONITORED, True), (LARGEST_MONITORED + 1, False), (LARGEST_IDENTIFIED, False)):
        for whole in (
            Payload(1, 2, b"x" * size).encode(),
            IdentifiedPayload("NLZH0023", 1, 2, b"x" * size).encode(),
        ):
            found = for_monitor(whole, b"NLZH0023", TOKEN.encode(), 7, 9)
            assert (found is not None) is fits
            if found is not None:
                assert TlexFrameReader().feed(PREAMBLE + found) == [found]
                datagram = decode(found)
                assert isinstance(datagram, IdentifiedPayload)
                assert decode_monitor_payload(datagram.data).data == b"x" * size


BAD: list[tuple[bytes, str]] = [
    (b"", "0 bytes, expected at least 21"),
    (bytes(20), "20 bytes, expected at least 21"),
    (bytes.fromhex("00000001") + bytes(17), "a token of 1 bytes, there is room for 0"),
    (bytes.fromhex("FFFFFFFF") + bytes(60), "a token of 4294967295 bytes, there is room for 43"),
    (bytes.fromhex("00000002 41 80") + bytes(17), "the token is not ASCII"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_a_bad_monitor_payload_is_told_by_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(BadDatagram, match=f"^{re.escape(f'Monitor payload (0xf0): {message}')}$"):
        decode_monitor_payload(data)


WRONG: list[tuple[MonitorPayload, str]] = [
    (MonitorPayload("\xe9", 0, 0, 0, b""), "the token is not ASCII"),
    (MonitorPayload("", -1, 0, 0, b""), "published is -1; allowed: 0 to 18446744073709551615"),
    (MonitorPayload("", 0, 2**64, 0, b""), "sent is 18446744073709551616; allowed: 0 to 18446744073709551615"),
    (MonitorPayload("", 0, 0, 256, b""), "type is 256; allowed: 0 to 255"),
]


@pytest.mark.parametrize(("payload", "message"), WRONG)
def test_no_monitor_payload_is_written_that_could_not_be_read(payload: MonitorPayload, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'Monitor payload (0xf0): {message}')}$"):
        payload.encode()


def test_a_token_is_not_in_what_is_logged() -> None:
    assert TOKEN not in repr(MonitorPayload(TOKEN, 0, 0, 0, b""))


@given(MONITOR_PAYLOAD, STAMP, STAMP)
def test_a_frame_that_has_waited_gets_another_time_of_sending_and_nothing_else_changes(
    payload: MonitorPayload, origin: int, later: int
) -> None:
    published = IdentifiedPayload("NLZH0023", payload.type, origin, payload.data).encode()
    token = payload.token.encode()
    before = for_monitor(published, b"NLZH0023", token, payload.published, payload.sent)
    assert before is not None
    assert restamped(before, later) == for_monitor(published, b"NLZH0023", token, payload.published, later)
