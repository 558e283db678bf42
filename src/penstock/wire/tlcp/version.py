"""Which protocol versions are supported, and how a peer names one: `LS_protocol` or the WebSocket subprotocol.

A sub-minor difference never matters (specification, "Protocol Versions"), so 2.0 to 2.5 are accepted with any third
number.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.wire.form import shown
from penstock.wire.tlcp.errors import RequestError, syntax

SUBPROTOCOL_SUFFIX = ".lightstreamer.com"
_NAME = re.compile(r"TLCP-(\d{1,4})\.(\d{1,4})\.(\d{1,4})", re.ASCII)


class Version(NamedTuple):
    """A protocol version as (major, minor)."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"TLCP-{self.major}.{self.minor}.0"

    @property
    def has_differences(self) -> bool:
        """Since 2.4 a value may be sent as its difference from the one before, `^P` or `^T`."""
        return self >= (2, 4)

    @property
    def has_message_response(self) -> bool:
        """Since 2.5 a MSGDONE carries the adapter's response as a third argument."""
        return self >= (2, 5)

    def reads_alike(self, other: Version) -> bool:
        """Whether clients of both versions can read the same notifications."""
        return self.has_differences == other.has_differences and self.has_message_response == other.has_message_response


OLDEST = Version(2, 0)
NEWEST = Version(2, 5)
SUPPORTED = tuple(Version(2, minor) for minor in range(OLDEST.minor, NEWEST.minor + 1))
SUPPORTED_TEXT = f"supported versions are {OLDEST} to {NEWEST}"


def unsupported(name: str) -> RequestError:
    """Error 65 for an unsupported version, naming the supported ones."""
    return syntax(f"Unsupported protocol version: {shown('LS_protocol', name)}; {SUPPORTED_TEXT}")


def parse_version(name: str) -> Version:
    """Read `TLCP-2.4.0`; raise error 65 for an unsupported version."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise unsupported(name)
    version = Version(int(match[1]), int(match[2]))
    if version not in SUPPORTED:
        raise unsupported(name)
    return version


def subprotocol_version(subprotocol: str) -> str | None:
    """The version named by a WebSocket subprotocol such as `TLCP-2.4.0.lightstreamer.com`, None for any other."""
    name = subprotocol.removesuffix(SUBPROTOCOL_SUFFIX)
    if name == subprotocol or _NAME.fullmatch(name) is None:
        return None
    return name
