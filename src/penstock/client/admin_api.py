"""The administration of a server, as a client sees it: requests that wait, answers as JSON.

What they do is in `penstock.services.admin`; the commands that people type are in `admin_commands`.
"""

from __future__ import annotations

import base64
import http
import json
import ssl
from typing import Any
from urllib.parse import urlencode

from penstock.client.api_port import ApiPort
from penstock.client.errors import ClientError

BASE = "/api/admin"
# A reload starts adapters.
TIMEOUT = 60.0


class AdminUnreachable(ClientError):
    """There is no connection to the server; the text says why."""


class AdminRefused(ClientError):
    """The server's answer to a request: its status, and its own words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AdminApi:
    """`url` is that of the API port; raises ValueError if it cannot be.

    With https the certificate is checked by `context`, by default against the system's authorities.
    """

    def __init__(
        self, url: str, user: str, password: str, context: ssl.SSLContext | None = None, base: str = BASE
    ) -> None:
        self._port = ApiPort(url, base, TIMEOUT, AdminUnreachable, context)
        if ":" in user:
            raise ValueError(f"user {user!r}: expected a name without a colon")
        self._login = {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}

    def ask(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """The answer, None if there is nothing to say; raises AdminRefused or AdminUnreachable."""
        given = {name: str(value) for name, value in query.items() if value is not None}
        asked = None if body is None else json.dumps(body).encode()
        place = path + (f"?{urlencode(given)}" if given else "")
        status, content = self._port.exchange(method, place, asked, self._login)
        try:
            answer: Any = json.loads(content) if content else None
            # Connections answer as Ditto does: what people read is the message.
            refusal = answer.get("message", answer["error"]) if status >= http.HTTPStatus.BAD_REQUEST else None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise AdminRefused(
                status, f"HTTP {status}, which is not an answer of a Penstock server; expected its API port"
            ) from None
        if refusal is not None:
            raise AdminRefused(status, str(refusal))
        return answer
