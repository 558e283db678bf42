"""The headers of a request, kept for as long as its client is connected: metadata adapters may ask for them.

One text for all of them, because a dictionary with a text for each takes three times as much memory, in every session;
and one object for all clients that send the same, as those of one kind do. How they are read is in `wire.http1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

# Neither names nor values can have one: it would end the header.
_BREAK = "\n"

# Different in each handshake, and of no use after it: without it, clients of one kind have the same headers.
_ONLY_FOR_HANDSHAKES = "sec-websocket-key"

# Objects kept for sharing; those used least go first. Fewer than of names, because each is larger.
MAX_SHARED = 1_000


class KeptHeaders(Mapping[str, str]):
    """Values by names in lower case, in their order, without the key of a handshake.

    Taken apart again whenever it is asked, which is seldom.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> KeptHeaders:
        """The same, if they are kept already."""
        if isinstance(headers, KeptHeaders):
            return headers
        kept = [header for header in headers.items() if header[0] != _ONLY_FOR_HANDSHAKES]
        return shared_headers(_BREAK.join([part for header in kept for part in header]))

    def _read(self) -> dict[str, str]:
        if not self._text:
            return {}
        parts = self._text.split(_BREAK)
        return dict(zip(parts[::2], parts[1::2], strict=True))

    def __getitem__(self, name: str) -> str:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())


@lru_cache(MAX_SHARED)
def shared_headers(text: str) -> KeptHeaders:
    return KeptHeaders(text)
