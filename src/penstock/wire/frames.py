"""The headers of WebSocket frames that go out; what comes in is read in `websocket`. RFC 6455, section 5.2.

`text_frame` has a native version (`build/native.c`); `quick` chooses.
"""

from __future__ import annotations

TEXT = 0x1
FINAL = 0x80
SHORT_LIMIT = 126
_MEDIUM_LIMIT = 65_536


def frame_header(size: int, first: bool, final: bool) -> bytes:
    """The header of an unmasked text (or continuation) frame."""
    opcode = (TEXT if first else 0) | (FINAL if final else 0)
    if size < SHORT_LIMIT:
        return bytes((opcode, size))
    if size < _MEDIUM_LIMIT:
        return bytes((opcode, 126)) + size.to_bytes(2, "big")
    return bytes((opcode, 127)) + size.to_bytes(8, "big")


def text_frame(payload: bytes) -> bytes:
    """The one frame of a whole text message."""
    return frame_header(len(payload), True, True) + payload
