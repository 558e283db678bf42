"""Headers of requests as HTTP/2 writes them, without compression: each as it is, remembered by nobody.

hpack's own encoder searches its table for each header and packs each value: a quarter of the time of a notification
(under a profiler). Also, what is remembered could be guessed from sizes, and one header is secret.
Read next: RFC 7541, 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from hpack import Encoder

# "Literal header field never indexed, new name".
_LITERAL = b"\x10"
# "Dynamic table size update", to nothing.
_NO_TABLE = b"\x20"
# Lengths from here on take more than a byte.
_LONG = 127


class PlainEncoder(Encoder):  # type: ignore[misc,unused-ignore]  # hpack has types in some versions only
    """In the place of h2's encoder. Names are in lower case already."""

    def __init__(self) -> None:
        super().__init__()
        self._says_size = True

    @property
    def header_table_size(self) -> int:
        return 0

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        # The peer has changed how much may be remembered, and has to hear that this is still nothing.
        self._says_size = True

    def encode(self, headers: Iterable[Any], huffman: bool = True) -> bytes:
        parts = [_NO_TABLE] if self._says_size else []
        self._says_size = False
        for name, value in headers:
            parts += (_name(name), _length(len(value)), value)
        return b"".join(parts)


@lru_cache(256)
def _name(name: bytes) -> bytes:
    return _LITERAL + _length(len(name)) + name


@lru_cache(8_192)
def _length(number: int) -> bytes:
    """RFC 7541, 5.1, with a prefix of 7 bits; the eighth says that the text is not packed."""
    if number < _LONG:
        return bytes((number,))
    encoded = bytearray((_LONG,))
    number -= _LONG
    while number >= 128:
        encoded.append(number % 128 + 128)
        number //= 128
    encoded.append(number)
    return bytes(encoded)
