from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlex.datagrams import (
    KEEP_ALIVE_FRAME,
    RECONNECT_FRAME,
    Bye,
    Datagram,
    DatagramKind,
    IdentifiedPayload,
    KeepAlive,
    Payload,
    Reconnect,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    Unknown,
    check_size,
    decode,
)
from penstock.wire.tlex.errors import BadDatagram
from penstock.wire.tlex.frames import frame
from tests.wire.tlex.cases import CASES, LARGEST, LARGEST_IDENTIFIED, LATEST, TOKEN

STAMP = st.integers(0, LATEST)
BYTE = st.integers(0, 0xFF)
ASCII = st.text(st.characters(max_codepoint=0x7F))
DATA = st.binary(max_size=300)

DATAGRAM: st.SearchStrategy[Datagram] = st.one_of(
    st.just(KeepAlive()),
    st.just(Reconnect()),
    ASCII.filter(bool).map(Token),
    ASCII.map(Bye),
    st.builds(Payload, BYTE, STAMP, DATA),
    st.builds(IdentifiedPayload, st.text(st.characters(max_codepoint=0x7F), min_size=8, max_size=8), BYTE, STAMP, DATA),
    st.builds(TimestampsRequest, STAMP),
    st.builds(TimestampsResponse, STAMP, STAMP, STAMP),
    st.builds(Unknown, st.integers(8, 0xFF), DATA),
)


def attempt(data: bytes) -> Datagram | BadDatagram:
    try:
        return decode(frame(data))
    except BadDatagram as error:
        return error


@pytest.mark.parametrize(("whole", "datagram"), CASES)
def test_a_datagram_is_written_as_it_is_read(whole: bytes, datagram: Datagram) -> None:
    assert datagram.encode() == whole
    assert decode(whole) == datagram


@given(DATAGRAM)
def test_what_is_written_is_read_again(datagram: Datagram) -> None:
    whole = datagram.encode()
    assert decode(whole) == datagram
    assert check_size(whole) == getattr(datagram, "kind", None)


@given(st.binary(min_size=1, max_size=40) | st.builds(lambda kind, rest: bytes((kind,)) + rest, BYTE, DATA))
def test_any_frame_is_a_datagram_or_a_bad_one(data: bytes) -> None:
    found = attempt(data)
    if isinstance(found, BadDatagram):
        assert found.datagram == DatagramKind(data[0]).label
    else:
        # Only text that is not ASCII is not kept.
        assert "\ufffd" in repr(found) or found.encode() == frame(data)


def test_every_kind_of_the_table_has_a_case() -> None:
    assert {decode(whole).encode()[4] for whole, _ in CASES} >= set(DatagramKind)


def test_the_ready_frames_are_those_of_their_datagrams() -> None:
    assert decode(KEEP_ALIVE_FRAME) == KeepAlive()
    assert decode(RECONNECT_FRAME) == Reconnect()


# The data of a frame, and what is said of it.
BAD: list[tuple[str, str]] = [
    ("00 00", "KeepAlive (0x00): 2 bytes, expected 1"),
    ("01", "Token (0x01): 1 bytes, expected at least 2"),
    ("01 41 80", "Token (0x01): the token is not ASCII"),
    ("03 03", "Reconnect (0x03): 2 bytes, expected 1"),
    ("04", "Payload without TLC identifier (0x04): 1 bytes, expected at least 10"),
    # The frame in the picture of section 6.3.2 is one of framing, not of this datagram.
    ("04 01 03 23", "Payload without TLC identifier (0x04): 4 bytes, expected at least 10"),
    ("04 02 00000158732688", "Payload without TLC identifier (0x04): 9 bytes, expected at least 10"),
    ("05", "Payload with TLC identifier (0x05): 1 bytes, expected at least 18"),
    (
        "05 4E4C5A4830303233 02 00000158732688",
        "Payload with TLC identifier (0x05): 17 bytes, expected at least 18",
    ),
    ("06", "Timestamps request (0x06): 1 bytes, expected 9"),
    ("06 00000158732688", "Timestamps request (0x06): 8 bytes, expected 9"),
    ("06 0000015873268860 00", "Timestamps request (0x06): 10 bytes, expected 9"),
    ("07 0000015873268860 0000015873268860", "Timestamps response (0x07): 17 bytes, expected 25"),
    ("07" + "00" * 23, "Timestamps response (0x07): 24 bytes, expected 25"),
    ("07" + "00" * 25, "Timestamps response (0x07): 26 bytes, expected 25"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_a_bad_datagram_is_told_by_its_name(data: str, message: str) -> None:
    with pytest.raises(BadDatagram, match=f"^{re.escape(message)}$"):
        decode(frame(bytes.fromhex(data)))


@pytest.mark.parametrize(("whole", "datagram"), [case for case in CASES if len(case[0]) < 100])
def test_a_datagram_cut_short_is_shorter_or_bad_but_nothing_else(whole: bytes, datagram: Datagram) -> None:
    for size in range(1, len(whole) - 4):
        data = whole[4 : 4 + size]
        found = attempt(data)
        if isinstance(found, BadDatagram):
            assert isinstance(datagram, Token | Payload | IdentifiedPayload | TimestampsRequest | TimestampsResponse)
        else:
            assert type(found) is type(datagram)
            assert found.encode() == frame(data)


def test_a_reason_that_is_not_ascii_is_read_with_replacements() -> None:
    assert decode(frame(b"\x02caf\xe9")) == Bye("caf\ufffd")


def test_an_identifier_that_is_not_ascii_is_nobodys_and_no_violation() -> None:
    datagram = decode(frame(b"\x05NLZH002\xb3\x02" + bytes(8)))
    assert datagram == IdentifiedPayload("NLZH002\ufffd", 2, 0, b"")


def test_a_token_is_not_in_what_is_logged() -> None:
    assert TOKEN not in repr(Token(TOKEN))


# Our own mistakes.
WRONG: list[tuple[Datagram, str]] = [
    (Token(""), "Token (0x01): the token is empty or not ASCII"),
    (Token("caf\xe9"), "Token (0x01): the token is empty or not ASCII"),
    (Token("x" * 65_535), "Token (0x01): 65536 bytes of data; a frame holds 1 to 65535"),
    (Bye("caf\xe9"), "Bye (0x02): the reason 'caf\xe9' is not ASCII"),
    (Payload(256, 0, b""), "Payload without TLC identifier (0x04): the payload type is 256; allowed: 0 to 255"),
    (
        Payload(1, -1, b""),
        "Payload without TLC identifier (0x04): origin is -1; allowed: 0 to 2**64 - 1 milliseconds",
    ),
    (
        Payload(1, 0, bytes(LARGEST + 1)),
        "Payload without TLC identifier (0x04): 65536 bytes of data; a frame holds 1 to 65535",
    ),
    (
        IdentifiedPayload("NLZH002", 1, 0, b""),
        "Payload with TLC identifier (0x05): the identifier 'NLZH002' is not 8 ASCII characters",
    ),
    (
        IdentifiedPayload("NLZH002\xe9", 1, 0, b""),
        "Payload with TLC identifier (0x05): the identifier 'NLZH002\xe9' is not 8 ASCII characters",
    ),
    (
        IdentifiedPayload("NLZH0023", 1, 0, bytes(LARGEST_IDENTIFIED + 1)),
        "Payload with TLC identifier (0x05): 65536 bytes of data; a frame holds 1 to 65535",
    ),
    (
        TimestampsRequest(2**64),
        "Timestamps request (0x06): t0 is 18446744073709551616; allowed: 0 to 2**64 - 1 milliseconds",
    ),
    (
        TimestampsResponse(0, 0, -5),
        "Timestamps response (0x07): t2 is -5; allowed: 0 to 2**64 - 1 milliseconds",
    ),
]


@pytest.mark.parametrize(("datagram", "message"), WRONG)
def test_nothing_is_written_that_could_not_be_read(datagram: Datagram, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        datagram.encode()
