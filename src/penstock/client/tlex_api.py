"""The REST side of a TLEX hub, as a client sees it: requests that wait, made on threads.

The connection that a session is for is in `tlex`. Specification: TLEX 1.1.1, 5.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from penstock.client.api_port import ApiPort
from penstock.client.errors import ClientError
from penstock.wire.tlex.rest import ErrorBody, RequestDetails, SessionAnswer, SessionRequest
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType, Tlc

BASE = "/api/v1"
TIMEOUT = 20.0

T = TypeVar("T")


class TlexError(ClientError):
    """The root of what can go wrong with a TLEX hub."""


class TlexUnreachable(TlexError):
    """There is no connection to the hub; the text says why."""


class TlexRefused(TlexError):
    """The hub's answer to a request: its status, and its own words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TlexApi:
    """`url` is that of the API port; `token` is an authorization token. Raises ValueError if they cannot be.

    With https the certificate is checked by `context`, by default against the system's authorities.
    """

    def __init__(self, url: str, token: str, context: ssl.SSLContext | None = None) -> None:
        self._port = ApiPort(url, BASE, TIMEOUT, TlexUnreachable, context)
        if not (token.isascii() and token.isprintable() and token.strip() == token and token):
            # Which ones is not said: what is wrong with it may be the end of another secret.
            raise ValueError("the token is empty, or has characters that are not allowed in tokens")
        self._login = {"X-Authorization": token}

    async def create(
        self,
        domain: str,
        type: SessionType,
        identifiers: Sequence[str],
        *,
        singleplex: bool = False,
        security: SecurityMode = SecurityMode.NONE,
    ) -> SessionAnswer:
        """A new session; connect to it within seconds."""
        if singleplex:
            details = RequestDetails(security_mode=security, tlc_identifier=identifiers[0])
        else:
            details = RequestDetails(security_mode=security, tlc_identifiers=tuple(identifiers))
        protocol = Protocol.SINGLEPLEX if singleplex else Protocol.MULTIPLEX
        body = SessionRequest(domain=domain, type=type, protocol=protocol, details=details)
        return await self._ask("POST", "/sessions", SessionAnswer, body)

    async def create_vlog(
        self, domain: str, identifier: str, *, security: SecurityMode = SecurityMode.NONE
    ) -> SessionAnswer:
        """A new session of a controller that sends V-Log; connect to it within seconds."""
        details = RequestDetails(security_mode=security, tlc_identifier=identifier)
        body = SessionRequest(domain=domain, type=SessionType.TLC, protocol=Protocol.VLOG, details=details)
        return await self._ask("POST", "/sessions", SessionAnswer, body)

    async def sessions(self, **filters: str) -> list[SessionAnswer]:
        query = f"?{urlencode(filters)}" if filters else ""
        return await self._ask("GET", f"/sessions{query}", list[SessionAnswer])

    async def session(self, token: str) -> SessionAnswer:
        return await self._ask("GET", f"/sessions/{quote(token, safe='')}", SessionAnswer)

    async def update(self, session: SessionAnswer, identifiers: Sequence[str]) -> SessionAnswer:
        """Other controllers for a session, from now on."""
        body = RequestDetails(security_mode=session.details.security_mode, tlc_identifiers=tuple(identifiers))
        return await self._ask("PUT", f"/sessions/{quote(session.token, safe='')}", SessionAnswer, body)

    async def delete(self, token: str) -> None:
        await self._ask("DELETE", f"/sessions/{quote(token, safe='')}", None)

    async def tlcs(self) -> list[Tlc]:
        return await self._ask("GET", "/tlcs", list[Tlc])

    async def tlc(self, uuid: str) -> Tlc:
        return await self._ask("GET", f"/tlcs/{quote(uuid, safe='')}", Tlc)

    async def register(self, identifier: str, type: str = "TCPStreaming") -> Tlc:
        return await self._ask("POST", "/tlcs", Tlc, {"identifier": identifier, "type": type})

    async def unregister(self, uuid: str) -> None:
        await self._ask("DELETE", f"/tlcs/{quote(uuid, safe='')}", None)

    async def session_logs(self, since: int | None = None, until: int | None = None) -> list[dict[str, Any]]:
        given = {name: str(value) for name, value in (("from", since), ("until", until)) if value is not None}
        query = f"?{urlencode(given)}" if given else ""
        return await self._ask("GET", f"/sessionlogs{query}", list[dict[str, Any]])

    async def _ask(self, method: str, path: str, answer: type[T] | None, body: object = None) -> T:
        asked = None if body is None else msgspec.json.encode(body)
        status, content = await asyncio.to_thread(self._port.exchange, method, path, asked, self._login)
        if status >= 400:
            try:
                message = msgspec.json.decode(content, type=ErrorBody).message
            except msgspec.DecodeError:
                message = f"HTTP {status}, which is not the answer of a TLEX hub; expected the API port of one"
            raise TlexRefused(status, message)
        try:
            return msgspec.json.decode(content or b"null", type=answer)
        except msgspec.DecodeError as error:
            # The first part of the path alone: there may be a token in the rest.
            place = path.split("/")[1].partition("?")[0]
            raise TlexError(f"{method} /{place}: not the answer of a TLEX hub: {error}") from None
