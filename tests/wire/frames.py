"""Frames as a client sends them, right and wrong, and the frames of a server read back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA


def frame(
    opcode: int, payload: bytes = b"", *, final: bool = True, key: bytes | None = b"\x37\xfa\x21\x3d", reserved: int = 0
) -> bytes:
    """One frame, masked unless `key` is None; nothing keeps it from being against the rules."""
    first = (0x80 if final else 0) | reserved << 4 | opcode
    bit = 0 if key is None else 0x80
    size = len(payload)
    if size < 126:
        header = bytes((first, bit | size))
    elif size < 65_536:
        header = bytes((first, bit | 126)) + size.to_bytes(2, "big")
    else:
        header = bytes((first, bit | 127)) + size.to_bytes(8, "big")
    if key is None:
        return header + payload
    masked = bytes(byte ^ key[index % 4] for index, byte in enumerate(payload))
    return header + key + masked


def text(message: str) -> bytes:
    return frame(TEXT, message.encode())


def close(code: int, reason: str = "") -> bytes:
    return frame(CLOSE, code.to_bytes(2, "big") + reason.encode())


class ServerFrame(NamedTuple):
    final: bool
    opcode: int
    payload: bytes


def server_frames(data: bytes) -> Iterator[ServerFrame]:
    """The unmasked frames of a server; they must be complete."""
    start = 0
    while start < len(data):
        first, size = data[start], data[start + 1]
        assert size < 0x80, "a server must not mask"
        assert not first & 0x70, "reserved bits are zero"
        start += 2
        for code, length in ((126, 2), (127, 8)):
            if size == code:
                size = int.from_bytes(data[start : start + length], "big")
                assert size >= (126 if length == 2 else 65_536), "a size is written in its shortest form"
                start += length
                break
        payload = data[start : start + size]
        assert len(payload) == size, "the last frame is cut short"
        start += size
        yield ServerFrame(bool(first & 0x80), first & 0xF, payload)


def messages_of(frames: list[ServerFrame]) -> list[bytes]:
    """The text messages that a client puts together from data frames."""
    found: list[bytes] = []
    parts: list[bytes] = []
    for entry in frames:
        assert entry.opcode == (CONTINUATION if parts else TEXT)
        parts.append(entry.payload)
        if entry.final:
            found.append(b"".join(parts))
            parts = []
    assert not parts, "the last message is cut short"
    return found
