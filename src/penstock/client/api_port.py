"""The API port of a server as a client reaches it: one request on a connection of its own, which waits for its answer.

What requests and answers mean is in `admin_api` and `tlex_api`.
"""

from __future__ import annotations

import http.client
import ssl

from penstock.client.address import server_parts
from penstock.client.errors import ClientError
from penstock.client.trust import trusting
from penstock.obstacles import obstacle


class ApiPort:
    """`url` is its address, with or without `base` at the end; raises ValueError if it cannot be one.

    With https the certificate is checked by `context`, by default against the system's authorities. `unreachable` is
    what is raised when there is no answer.
    """

    def __init__(
        self, url: str, base: str, seconds: float, unreachable: type[ClientError], context: ssl.SSLContext | None = None
    ) -> None:
        parts = server_parts(url, ("http", "https"), "http://localhost:8081")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._base = parts.path.rstrip("/").removesuffix(base) + base
        self._seconds = seconds
        self._unreachable = unreachable
        self._context = trusting() if self._secure and context is None else context

    def exchange(self, method: str, path: str, json: bytes | None, login: dict[str, str]) -> tuple[int, bytes]:
        """Status and content of the answer; `login` is the header that says who asks."""
        if self._secure:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._seconds, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._seconds)
        headers = login if json is None else {**login, "Content-Type": "application/json"}
        try:
            connection.request(method, self._base + path, json, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise self._unreachable("the API port does not answer: what comes from there is not HTTP") from error
        except OSError as error:
            raise self._unreachable(f"the API port does not answer: {obstacle(error)}") from error
        finally:
            connection.close()
