"""Compression of WebSocket messages without I/O: permessage-deflate, as the `websockets` core negotiates it.

Not here: frames and what they may contain (`websocket`), and which port offers it. RFC 7692.
"""

from __future__ import annotations

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode

# A small window and a low memory level, because each connection has its own state for as long as it is open.
WINDOW_BITS = 12
MEMORY_LEVEL = 5

# Messages of at least this many bytes are compressed: below it there is little to gain.
COMPRESSED_BYTES = 1_024


class TooLong(Exception):
    """A message that is longer than allowed after decompression."""


class NotCompressed(Exception):
    """Bytes that are marked as compressed but cannot be decompressed."""


def offer() -> ServerPerMessageDeflateFactory:
    """What a handshake may negotiate."""
    return ServerPerMessageDeflateFactory(
        server_max_window_bits=WINDOW_BITS,
        client_max_window_bits=WINDOW_BITS,
        compress_settings={"memLevel": MEMORY_LEVEL},
    )


class Deflate:
    """Both directions of one socket. Each message builds on those before it, so every one has to pass through here."""

    __slots__ = ("_extension",)

    def __init__(self, extension: Extension) -> None:
        self._extension = extension

    def text_frame(self, message: bytes) -> bytes:
        """The one frame of a text message, compressed."""
        return Frame(Opcode.TEXT, message).serialize(mask=False, extensions=[self._extension])

    def inflated(self, opcode: int, payload: bytes, final: bool, marked: bool, room: int) -> bytes:
        """A data frame's payload; a `marked` frame begins a compressed message. Raises TooLong and NotCompressed."""
        frame = Frame(Opcode(opcode), payload, final, marked)
        try:
            # One more than allowed, because 0 would mean no limit.
            data = bytes(self._extension.decode(frame, max_size=room + 1).data)
        except PayloadTooBig:
            raise TooLong from None
        except ProtocolError:
            raise NotCompressed from None
        if len(data) > room:
            raise TooLong
        return data
