"""Builds the requests a client sends: parameter lines, percent-encoded, for a WebSocket message or an HTTP body.

Numbers and identifiers are given out by `tlcp`; parsing is the server's business (`penstock.wire.tlcp.requests`).
Specification: chapters 1 ("Request Syntax") and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from penstock.wire.numbers import decimal
from penstock.wire.tlcp.version import SUBPROTOCOL_SUFFIX, Version

# What the specification wants of every client that is not one of the official libraries.
CLIENT_ID = "mgQkwtwdysogQz2BJ4Ji kOj2Bg"

Parameter = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request by name, with its parameter line; `request_id` is what the answer will carry, if it carries any."""

    name: str
    line: str
    request_id: str | None = None

    def message(self) -> str:
        """The text of one WebSocket message."""
        return f"{self.name}\r\n{self.line}"

    def body(self) -> bytes:
        """The body of an HTTP POST to `target`."""
        return self.line.encode("ascii")

    def target(self, version: Version) -> str:
        """The path and query of an HTTP request, below whatever prefix the server has."""
        return f"/lightstreamer/{self.name}.txt?LS_protocol={version}"


@dataclass(frozen=True, slots=True)
class StreamWishes:
    """What a client asks of a stream connection; what is None is left to the server."""

    polling: bool = False
    polling_millis: int | None = None
    idle_millis: int | None = None
    keepalive_millis: int | None = None
    inactivity_millis: int | None = None
    content_length: int | None = None
    send_sync: bool | None = None
    reduce_head: bool | None = None


PLAIN_STREAM = StreamWishes()


def subprotocol(version: Version) -> str:
    """The WebSocket subprotocol of a protocol version."""
    return f"{version}{SUBPROTOCOL_SUFFIX}"


def parameter_line(**parameters: Parameter) -> str:
    """`LS_name=value` pairs in the order given; None leaves a parameter out."""
    return "&".join(f"LS_{name}={_encoded(value)}" for name, value in parameters.items() if value is not None)


def _encoded(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return decimal(value)
    return quote(str(value), safe="")


def _stream(wishes: StreamWishes) -> dict[str, Parameter]:
    return {
        "polling": True if wishes.polling else None,
        "polling_millis": wishes.polling_millis,
        "idle_millis": wishes.idle_millis,
        "keepalive_millis": wishes.keepalive_millis,
        "inactivity_millis": wishes.inactivity_millis,
        "content_length": wishes.content_length,
        "send_sync": wishes.send_sync,
        "reduce_head": wishes.reduce_head,
    }


def create_session(
    wishes: StreamWishes,
    *,
    adapter_set: str | None,
    user: str | None,
    password: str | None,
    max_bandwidth: float | None,
) -> OutgoingRequest:
    line = parameter_line(
        **_stream(wishes),
        adapter_set=adapter_set,
        requested_max_bandwidth=max_bandwidth,
        user=user,
        cid=CLIENT_ID,
        password=password,
    )
    return OutgoingRequest("create_session", line)


def bind_session(session: str, wishes: StreamWishes, recovery_from: int | None) -> OutgoingRequest:
    line = parameter_line(session=session, recovery_from=recovery_from, **_stream(wishes))
    return OutgoingRequest("bind_session", line)


def subscribe(
    session: str,
    request_id: str,
    subscription: int,
    *,
    group: str,
    schema: str,
    mode: str,
    data_adapter: str | None,
    snapshot: bool | int,
    max_frequency: float | str | None,
    buffer_size: int | str | None,
    selector: str | None,
    ack: bool | None,
) -> OutgoingRequest:
    line = parameter_line(
        session=session,
        reqId=request_id,
        op="add",
        subId=subscription,
        mode=mode,
        group=group,
        schema=schema,
        data_adapter=data_adapter,
        selector=selector,
        snapshot=snapshot,
        requested_max_frequency=max_frequency,
        requested_buffer_size=buffer_size,
        ack=ack,
    )
    return OutgoingRequest("control", line, request_id)


def control(session: str, request_id: str, operation: str, **parameters: Parameter) -> OutgoingRequest:
    """Every control request but a subscription: delete, reconf, constrain, force_rebind, destroy."""
    line = parameter_line(session=session, reqId=request_id, op=operation, **parameters)
    return OutgoingRequest("control", line, request_id)


def message(
    session: str,
    request_id: str,
    text: str,
    *,
    sequence: str | None,
    progressive: int | None,
    max_wait_millis: int | None,
    outcome: bool,
    ack: bool | None,
) -> OutgoingRequest:
    line = parameter_line(
        session=session,
        reqId=request_id,
        sequence=sequence,
        msg_prog=progressive,
        max_wait=max_wait_millis,
        outcome=None if outcome else False,
        ack=ack,
        message=text,
    )
    return OutgoingRequest("msg", line, request_id)


def heartbeat(session: str | None) -> OutgoingRequest:
    return OutgoingRequest("heartbeat", parameter_line(session=session))
