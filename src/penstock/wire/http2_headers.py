"""Headers of requests as HTTP/2 writes them, without compression: each as it is, remembered by nobody.

A search in tables for each header and the packing of each value took a quarter of the time of a notification (under a
profiler). Also, what is remembered could be guessed from sizes, and one header is secret. RFC 7541, 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# "Dynamic table size update", to nothing: the first block of a connection begins with it.
NO_TABLE: Final = b"\x20"
# "Literal header field never indexed, new name".
_LITERAL: Final = b"\x10"
# Lengths from here on take more than a byte.
_LONG: Final = 127

# Names come from our own code, so that these are few.
_NAMES: Final[dict[str, bytes]] = {}


def packed(headers: Iterable[tuple[str, str]]) -> bytes:
    """One block; blocks can be joined. Names are in lower case."""
    parts: list[bytes] = []
    for name, text in headers:
        head = _NAMES.get(name)
        if head is None:
            encoded = name.encode()
            head = _NAMES[name] = _LITERAL + _length(len(encoded)) + encoded
        value = text.encode()
        parts.append(head)
        parts.append(_length(len(value)))
        parts.append(value)
    return b"".join(parts)


def _length(number: int) -> bytes:
    """5.1, with a prefix of 7 bits; the eighth says that the text is not packed."""
    if number < _LONG:
        return _SHORT[number]
    encoded = bytearray((_LONG,))
    number -= _LONG
    while number >= 128:
        encoded.append(number % 128 + 128)
        number //= 128
    encoded.append(number)
    return bytes(encoded)


_SHORT: Final = [bytes((number,)) for number in range(_LONG)]
