"""The administration of a server, as a client sees it: requests that wait, answers as JSON.

What they do is in `penstock.services.admin`; the commands that people type are in `admin_commands`.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlencode

from penstock.client.address import server_parts
from penstock.client.errors import ClientError
from penstock.client.obstacles import obstacle
from penstock.client.trust import trusting

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

    def __init__(self, url: str, user: str, password: str, context: ssl.SSLContext | None = None) -> None:
        parts = server_parts(url, ("http", "https"), "http://localhost:8081")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._base = parts.path.rstrip("/").removesuffix(BASE) + BASE
        if ":" in user:
            raise ValueError(f"user {user!r}: expected a name without a colon")
        self._authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._context = trusting() if self._secure and context is None else context

    def ask(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """The answer, None if there is nothing to say; raises AdminRefused or AdminUnreachable."""
        given = {name: str(value) for name, value in query.items() if value is not None}
        status, content = self._exchange(method, path + (f"?{urlencode(given)}" if given else ""), body)
        try:
            answer: Any = json.loads(content) if content else None
            refusal = answer["error"] if status >= http.HTTPStatus.BAD_REQUEST else None
        except (ValueError, KeyError, TypeError):
            raise AdminRefused(
                status, f"HTTP {status}, which is not the answer of a Penstock server; expected its API port"
            ) from None
        if refusal is not None:
            raise AdminRefused(status, str(refusal))
        return answer

    def _exchange(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        if self._secure:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=TIMEOUT, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT)
        headers = {"Authorization": self._authorization}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body)
        try:
            connection.request(method, self._base + path, content, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise AdminUnreachable("the API port does not answer: what comes from there is not HTTP") from error
        except OSError as error:
            raise AdminUnreachable(f"the API port does not answer: {obstacle(error)}") from error
        finally:
            connection.close()
