"""What all clients of a server's API port need: its address, a connection, and what went wrong, in words to show.

Tokens never stand in any of these words. Not here: what is asked for (`outlet`, `remote`).
"""

from __future__ import annotations

import http.client
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.pipeline.errors import BadOption

# The timeout of a request, which is then sent again.
ANSWER_SECONDS = 60.0
# Between two tries, in seconds: doubled from the first to the last.
FIRST_PAUSE = 0.1
LAST_PAUSE = 5.0
# What may go away by itself: too busy, the journal's disk is full, a proxy before a server that starts.
TRY_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class ServerAddress:
    """`text` is the address as it may be shown, `base` the path below which a proxy has the server."""

    text: str
    secure: bool
    host: str
    port: int | None
    base: str

    @classmethod
    def parse(cls, server: str) -> ServerAddress:
        """Raises BadOption."""
        try:
            parts = urlsplit(server)
            found = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            found = False
        if not found:
            raise BadOption(f"server is {_without_user(server)!r}; expected an address such as http://127.0.0.1:8081")
        if parts.username is not None:
            raise BadOption(f"server is {_without_user(server)!r}; a token is an option of its own, not in the address")
        secure = parts.scheme == "https"
        return cls(server.rstrip("/"), secure, parts.hostname or "", parts.port, parts.path.rstrip("/"))

    def connect(self) -> http.client.HTTPConnection:
        """Raises OSError."""
        if self.secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self.host, self.port, timeout=ANSWER_SECONDS, context=context)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_SECONDS)
        connection.connect()
        # Head and body are two writes: the second must not wait for the first to be acknowledged.
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def check_token(token: str | None) -> None:
    """Raises BadOption, without the token."""
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
        raise BadOption("token has characters that cannot stand in a header, or is empty")


def seconds_of(header: str | None) -> float:
    """Retry-After; 0 for what is not a number: a date is not worth reading here."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0


def cause_of(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _without_user(server: str) -> str:
    """An address that may be shown: what stands before an @ may be a secret."""
    scheme, found, rest = server.rpartition("@")
    return f"{scheme.partition('://')[0]}://***@{rest}" if found else server
