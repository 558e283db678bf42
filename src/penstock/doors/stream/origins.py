"""Cross-origin rules: which pages from elsewhere may read answers, send credentials, or open a WebSocket.

Configuration: section [cors] and stream.allow_websocket_origins.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.config import Cors

# Headers a page may always set; they are what browsers and clients send for TLCP requests.
COMMON_HEADERS = ("Content-Type", "Cache-Control", "X-Requested-With")


def allows(origins: Collection[str], origin: str) -> bool:
    return "*" in origins or origin.lower() in origins


class Origins:
    """Answers for one configuration."""

    def __init__(self, cors: Cors) -> None:
        self._cors = cors

    def allows(self, origin: str) -> bool:
        return allows(self._cors.allow_origins, origin)

    def headers(self, origin: str | None) -> list[tuple[str, str]]:
        """What every answer to a request with this Origin carries."""
        if origin is None or not self.allows(origin):
            return []
        found = [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]
        if self._cors.accept_credentials:
            found.append(("Access-Control-Allow-Credentials", "true"))
        return found

    def preflight(self, origin: str) -> list[tuple[str, str]]:
        """The answer to an OPTIONS request."""
        return [
            *self.headers(origin),
            ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
            ("Access-Control-Allow-Headers", ", ".join((*COMMON_HEADERS, *self._cors.accept_extra_headers))),
            ("Access-Control-Max-Age", str(self._cors.options_max_age)),
        ]
