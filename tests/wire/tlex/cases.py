"""One table of frames for readers and writers: bytes, and the datagram they are."""

from __future__ import annotations

from penstock.wire.tlex.datagrams import (
    Bye,
    Datagram,
    IdentifiedPayload,
    KeepAlive,
    Payload,
    Reconnect,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    Unknown,
)

# The token of the specification's examples.
TOKEN = "cXXrqTkreh0vLbuuYKKQQGAU1MTGGGBC1N1izwYaqu8"

NOON = 0x0158_7326_8860
NOON_BYTES = bytes.fromhex("00 00 01 58 73 26 88 60")
LATEST = 2**64 - 1

# The largest payloads that fit into a frame.
LARGEST = 65_525
LARGEST_IDENTIFIED = 65_517

CASES: list[tuple[bytes, Datagram]] = [
    (bytes.fromhex("AA BB 00 01 00"), KeepAlive()),
    (bytes.fromhex("AA BB 00 2C 01") + TOKEN.encode(), Token(TOKEN)),
    (bytes.fromhex("AA BB 00 02 01 41"), Token("A")),
    (bytes.fromhex("AA BB 00 01 02"), Bye()),
    (bytes.fromhex("AA BB 00 10 02") + b"normal shutdown", Bye("normal shutdown")),
    (bytes.fromhex("AA BB 00 01 03"), Reconnect()),
    (bytes.fromhex("AA BB 00 0A 04 02") + NOON_BYTES, Payload(2, NOON, b"")),
    (bytes.fromhex("AA BB 00 0D 04 02") + NOON_BYTES + b"abc", Payload(2, NOON, b"abc")),
    (bytes.fromhex("AA BB 00 0B 04 FF FFFFFFFFFFFFFFFF 00"), Payload(0xFF, LATEST, b"\0")),
    (bytes.fromhex("AA BB FF FF 04 02") + NOON_BYTES + b"x" * LARGEST, Payload(2, NOON, b"x" * LARGEST)),
    (
        bytes.fromhex("AA BB 00 12 05") + b"NLZH0023\x02" + NOON_BYTES,
        IdentifiedPayload("NLZH0023", 2, NOON, b""),
    ),
    # A payload may look like a header.
    (
        bytes.fromhex("AA BB 00 17 05") + b"tlc_0001\x01" + NOON_BYTES + bytes.fromhex("AA BB 00 01 00"),
        IdentifiedPayload("tlc_0001", 1, NOON, bytes.fromhex("AA BB 00 01 00")),
    ),
    (
        bytes.fromhex("AA BB FF FF 05") + b"tlc_0001\x00" + NOON_BYTES + b"y" * LARGEST_IDENTIFIED,
        IdentifiedPayload("tlc_0001", 0, NOON, b"y" * LARGEST_IDENTIFIED),
    ),
    (bytes.fromhex("AA BB 00 09 06") + NOON_BYTES, TimestampsRequest(NOON)),
    (bytes.fromhex("AA BB 00 09 06 0000000000000000"), TimestampsRequest(0)),
    (
        bytes.fromhex("AA BB 00 19 07") + NOON_BYTES + bytes.fromhex("0000000000000001 FFFFFFFFFFFFFFFF"),
        TimestampsResponse(NOON, 1, LATEST),
    ),
    (bytes.fromhex("AA BB 00 01 08"), Unknown(0x08, b"")),
    (bytes.fromhex("AA BB 00 03 F0 01 02"), Unknown(0xF0, b"\x01\x02")),
    (bytes.fromhex("AA BB 00 02 FF AA"), Unknown(0xFF, b"\xaa")),
]
