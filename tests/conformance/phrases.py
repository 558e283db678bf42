"""Phrases of the conformance tests: parameter lines, bindings, rows of the table as test parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import pytest
from _pytest.mark import ParameterSet
from websockets.exceptions import ConnectionClosed

from tests.support.background import BackgroundServer
from tests.support.raw import CID, TIMEOUT, Exchange, Http, Socket, Stream, params

HEAD = ["CONOK", "SERVNAME", "CLIENTIP", "CONS"]


def row(name: str, *values: object, config: Mapping[str, object] | None = None) -> ParameterSet:
    """Test parameters that show the row `name` of docs/conformance.md."""
    marks = [pytest.mark.conformance(name)]
    if config is not None:
        marks.append(pytest.mark.config(config))
    return pytest.param(*values, id=name, marks=marks)


def heard(server: BackgroundServer) -> list[str]:
    """The messages that the metadata adapter has had: also those that were answered before it was called."""
    return server.call(lambda: list(server.metadata.messages))


def create(**parameters: object) -> str:
    """The parameter line of a session creation."""
    return f"{params(**{'adapter_set': 'TEST', **parameters})}&LS_cid={CID}"


def add(subscription: int = 1, /, **changes: object) -> str:
    """The parameter line of a subscription: item `a`, field `x`, MERGE, unless changed."""
    request = {"reqId": subscription, "op": "add", "subId": subscription, "group": "a", "schema": "x", "mode": "MERGE"}
    return params(**{**request, **changes})


def without(line: str, name: str) -> str:
    """The parameter line with one parameter left out."""
    return "&".join(pair for pair in line.split("&") if not pair.startswith(f"{name}="))


def bind(exchange: Exchange, session: str, version: str = "1.1", **parameters: object) -> Stream:
    """Bind a session over HTTP and read up to CONS, or to the refusal."""
    http = exchange.http()
    http.post("bind_session", params(session=session, **parameters), version=version)
    http.read_head()
    return Stream(http, http.read_until("CONS", "CONERR", "END"))


def batch(exchange: Exchange, session: str, *lines: str, name: str = "control") -> list[str]:
    """Several requests in one body, with the session in the query string."""
    return exchange.request(name, "\r\n".join(lines), f"LS_protocol=TLCP-2.4.0&LS_session={session}")


def answer(http: Http) -> list[str]:
    """The lines of a complete answer."""
    http.read_head()
    return http.read_body().decode().split("\r\n")[:-1]


def close_code(socket: Socket) -> int:
    """Wait for the server to close the WebSocket; the code it gives."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            socket.connection.recv(TIMEOUT)
    code = socket.connection.close_code
    assert code is not None
    return code


def logged_reason(caplog: pytest.LogCaptureFixture) -> str:
    """What the log has of a refusal whose text for the client is literal."""
    found = [record for record in caplog.records if record.name == "penstock.doors.tlcp.refusals"]
    assert found
    fields: Mapping[str, object] = found[-1].__dict__["fields"]
    return str(fields["reason"])


def upgrade(subprotocol: str, **headers: str) -> dict[str, str]:
    """The headers of a WebSocket handshake."""
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": subprotocol,
        **headers,
    }
