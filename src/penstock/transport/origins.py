"""Cross-origin rules: which pages from elsewhere may read answers, send credentials, or open a WebSocket.

Configuration: sections [cors] and [api.cors], and stream.allow_websocket_origins.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from penstock.config import CorsSection

# Headers a page may always set: what browsers and clients send with TLCP requests, and with requests of the API.
COMMON_HEADERS = ("Content-Type", "Cache-Control", "X-Requested-With")
METHODS = ("GET", "POST", "OPTIONS")

# Ports that browsers leave out of an origin.
DEFAULT_PORTS = {"http": 80, "https": 443}

API_HEADERS = (
    "Accept",
    "Authorization",
    "Content-Type",
    "Correlation-Id",
    "If-Match",
    "If-None-Match",
    "X-Authorization",
)
API_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Headers of the API's answers that a page may read besides those that it always may.
API_EXPOSED = ("Correlation-Id", "ETag", "Location", "Retry-After")


def allows(origins: Collection[str], origin: str) -> bool:
    return "*" in origins or origin.lower() in origins


class Origins:
    """Answers for one configuration."""

    def __init__(
        self,
        cors: CorsSection,
        methods: Sequence[str] = METHODS,
        headers: Sequence[str] = COMMON_HEADERS,
        exposed: Sequence[str] = (),
    ) -> None:
        self._cors = cors
        self._methods = ", ".join(methods)
        self._headers = ", ".join((*headers, *cors.accept_extra_headers))
        self._exposed = ", ".join(exposed)
        # Other ports of this server, whose pages may use this one as well.
        self.neighbour_ports: Collection[int] = ()

    def allows(self, origin: str, host: str | None = None) -> bool:
        """`host` is the header of this name in the request."""
        return allows(self._cors.allow_origins, origin) or self.is_neighbour(origin, host)

    def is_neighbour(self, origin: str, host: str | None) -> bool:
        """Whether the page has come from one of the other ports, of the host that the browser has asked now."""
        if not self.neighbour_ports or host is None:
            return False
        try:
            page, asked = urlsplit(origin), urlsplit(f"//{host}")
            port = page.port or DEFAULT_PORTS.get(page.scheme)
            return port in self.neighbour_ports and page.hostname is not None and page.hostname == asked.hostname
        except ValueError:
            # A port that is not a number.
            return False

    def headers(self, origin: str | None, host: str | None = None) -> list[tuple[str, str]]:
        """Headers of every answer to a request with this Origin, also to a preflight."""
        if origin is None or not self.allows(origin, host):
            return []
        found = [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]
        if self._cors.accept_credentials:
            found.append(("Access-Control-Allow-Credentials", "true"))
        if self._exposed:
            found.append(("Access-Control-Expose-Headers", self._exposed))
        return found

    def preflight(self, origin: str, host: str | None = None) -> list[tuple[str, str]]:
        """Further headers of the answer to an OPTIONS request: each only once, because browsers refuse duplicates."""
        if not self.allows(origin, host):
            return []
        return [
            ("Access-Control-Allow-Methods", self._methods),
            ("Access-Control-Allow-Headers", self._headers),
            ("Access-Control-Max-Age", str(self._cors.options_max_age)),
        ]
