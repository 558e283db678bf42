"""Which versions of the protocol are supported, and how they differ.

The server names the newest in its first request; the adapter's answer says which one it will be.
"""

from __future__ import annotations

from typing import NamedTuple


class Version(NamedTuple):
    """A protocol version."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def has_close_packet(self) -> bool:
        """Whether a connection may always be closed with CLOSE; before, only if the adapter has asked for it."""
        return self >= (1, 8, 3)

    @property
    def has_smart_encoding(self) -> bool:
        """Whether text is UTF-8 with few escapes; before, it is URL-encoded."""
        return self >= (1, 9, 0)

    @property
    def has_rich_tables(self) -> bool:
        """Whether subscriptions are sent with data adapter, items and statistics, and the answer may ask for more."""
        return self >= (1, 9, 0)

    @property
    def has_time_to_live(self) -> bool:
        """Whether a new session is answered with the time it may live."""
        return self >= (1, 9, 0)


# The version of adapters whose answer to the first request names no version.
UNNAMED = Version(1, 8, 0)
OLDEST = Version(1, 8, 2)
NEWEST = Version(1, 9, 1)
SUPPORTED = (OLDEST, Version(1, 8, 3), Version(1, 9, 0), NEWEST)

_BY_NAME = {str(version): version for version in SUPPORTED}


def find_version(name: str) -> Version | None:
    """The version of this name, None if it is not supported."""
    return _BY_NAME.get(name)
