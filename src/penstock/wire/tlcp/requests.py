"""The requests of TLCP as typed records, and the parser from request name and parameter lines. Those about push
notifications are in `push`.

Whether a request can be honoured is decided elsewhere; here only its form is. Specification: chapters 1, 2 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.wire.form import FormError, Parameters, parse_line, readable, shown, shown_name
from penstock.wire.tlcp.control import MODES, Control, Request, buffer_size, unknown
from penstock.wire.tlcp.errors import RequestError, combo, form_error, malformed, syntax
from penstock.wire.tlcp.push import PUSH_OPERATIONS, parse_push

CONTROL_OPERATIONS = ("add", "delete", "reconf", "constrain", "force_rebind", "destroy")

_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_SEQUENCE = re.compile(r"[A-Za-z0-9_]{1,256}", re.ASCII)
RESERVED_SEQUENCE = "UNORDERED_MESSAGES"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a client asks of the connection it creates or binds a session on."""

    polling: bool = False
    polling_millis: int = 0
    idle_millis: int = 0
    keepalive_millis: int | None = None
    inactivity_millis: int | None = None
    content_length: int | None = None
    send_sync: bool = True
    reduce_head: bool = False


@dataclass(frozen=True, slots=True)
class Subscribe(Control):
    subscription: int
    data_adapter: str
    group: str
    schema: str
    mode: str
    selector: str | None
    buffer_size: int | None  # None: not requested; 0: unlimited
    max_frequency: float | None  # None: unlimited
    unfiltered: bool
    snapshot: bool
    snapshot_length: int | None  # None: the server decides
    ack: bool


@dataclass(frozen=True, slots=True)
class Unsubscribe(Control):
    subscription: int
    ack: bool


@dataclass(frozen=True, slots=True)
class Reconfigure(Control):
    subscription: int
    changes_frequency: bool
    max_frequency: float | None  # None: unlimited


@dataclass(frozen=True, slots=True)
class Constrain(Control):
    changes_bandwidth: bool
    max_bandwidth: float | None  # None: unlimited


@dataclass(frozen=True, slots=True)
class ForceRebind(Control):
    polling_millis: int
    close_socket: bool


@dataclass(frozen=True, slots=True)
class Destroy(Control):
    cause_code: int | None
    cause_message: str | None
    close_socket: bool


@dataclass(frozen=True, slots=True)
class SendMessage(Control):
    message: str
    sequence: str | None
    progressive: int | None
    max_wait_millis: int | None
    ack: bool
    outcome: bool


@dataclass(frozen=True, slots=True)
class Heartbeat(Request):
    pass


@dataclass(frozen=True, slots=True)
class WebSocketCheck(Request):
    pass


@dataclass(frozen=True, slots=True)
class BindSession(Request):
    stream: StreamOptions
    recovery_from: int | None


@dataclass(frozen=True, slots=True)
class CreateSession(Request):
    stream: StreamOptions
    user: str | None
    password: str | None = field(repr=False)
    adapter_set: str
    max_bandwidth: float | None
    client_id: str | None
    supported_diffs: tuple[str, ...] | None
    ttl_millis: int | None
    controls: tuple[Control, ...]


def parse_requests(name: str, lines: Sequence[str], defaults: Mapping[str, str]) -> list[Request | RequestError]:
    """All requests of one HTTP body or WebSocket message, in order; a line that is wrong yields its error in its place.

    `defaults` are the parameters of the query string. An unknown request name raises.
    """
    if name == "wsok":
        return [WebSocketCheck(None)]
    if name == "create_session":
        return [_create_session(lines, defaults)]
    if name not in _LINE_PARSERS:
        known = ", ".join(("create_session", *_LINE_PARSERS))
        raise malformed(f"Unknown request name {shown_name(name)}; known: {known}")
    if name == "bind_session" and len(lines) > 1:
        # One connection carries one session; only control requests come in batches.
        return [malformed(f"bind_session takes one line of parameters, found {len(lines)}")]
    found: list[Request | RequestError] = []
    for line in lines:
        given: Mapping[str, str] = {}
        try:
            given = {**defaults, **parse_line(line)}
            found.append(_LINE_PARSERS[name](given))
        except RequestError as error:
            error.request_id = _readable_request_id(given)
            found.append(error)
        except FormError as error:
            found.append(form_error(error, _readable_request_id(given or _rest_of(line, defaults))))
    return found


def _rest_of(line: str, defaults: Mapping[str, str]) -> Mapping[str, str]:
    """What the answer to a malformed line needs: its identifier, if that can still be read."""
    request_id = readable(line, "LS_reqId")
    return defaults if request_id is None else {"LS_reqId": request_id}


def _readable_request_id(given: Mapping[str, str]) -> str | None:
    request_id = given.get("LS_reqId", "")
    return request_id if _REQUEST_ID.fullmatch(request_id) else None


def _stream_options(parameters: Parameters) -> StreamOptions:
    return StreamOptions(
        polling=parameters.boolean("LS_polling", False),
        polling_millis=parameters.integer("LS_polling_millis", 0) or 0,
        idle_millis=parameters.integer("LS_idle_millis", 0) or 0,
        keepalive_millis=parameters.integer("LS_keepalive_millis", 0),
        inactivity_millis=parameters.integer("LS_inactivity_millis", 0),
        content_length=parameters.integer("LS_content_length", 0),
        send_sync=parameters.boolean("LS_send_sync", True),
        reduce_head=parameters.boolean("LS_reduce_head", False),
    )


def _bandwidth(parameters: Parameters) -> float | None:
    value = parameters.rate("LS_requested_max_bandwidth", ("unlimited",))
    return value if isinstance(value, float) else None


def _create_session(lines: Sequence[str], defaults: Mapping[str, str]) -> CreateSession | RequestError:
    try:
        parameters = Parameters({**defaults, **parse_line(lines[0] if lines else "")})
        diffs = parameters.text("LS_supported_diffs")
        ttl = parameters.text("LS_ttl_millis")
        controls = _combo_controls(parameters, lines[1:])
        return CreateSession(
            None,
            stream=_stream_options(parameters),
            user=parameters.text("LS_user"),
            password=parameters.text("LS_password"),
            adapter_set=parameters.text("LS_adapter_set") or "DEFAULT",
            max_bandwidth=_bandwidth(parameters),
            client_id=parameters.text("LS_cid"),
            supported_diffs=None if diffs is None else tuple(name for name in diffs.split(",") if name),
            ttl_millis=None if ttl in ("unknown", "unlimited") else parameters.integer("LS_ttl_millis", 0),
            controls=controls,
            unknown=unknown(parameters),
        )
    except RequestError as error:
        return error
    except FormError as error:
        return form_error(error)


def _combo_controls(parameters: Parameters, lines: Sequence[str]) -> tuple[Control, ...]:
    """The control requests that come with a session creation: one in the same line, or each in a line that follows."""
    try:
        first = () if parameters.text("LS_op") is None else (_control(parameters, combo=True),)
        return (*first, *(_control(Parameters(parse_line(line)), combo=True) for line in lines))
    except RequestError as error:
        raise combo(error) from None
    except FormError as error:
        raise combo(form_error(error)) from None


def _bind_session(given: Mapping[str, str]) -> BindSession:
    parameters = Parameters(given)
    return BindSession(
        parameters.text("LS_session"),
        stream=_stream_options(parameters),
        recovery_from=parameters.integer("LS_recovery_from", 0),
        unknown=unknown(parameters),
    )


def _heartbeat(given: Mapping[str, str]) -> Heartbeat:
    parameters = Parameters(given)
    return Heartbeat(parameters.text("LS_session"), unknown=unknown(parameters))


def _request_id(parameters: Parameters, combo: bool) -> str:
    if combo and parameters.text("LS_reqId") is None:
        return ""
    request_id = parameters.required("LS_reqId")
    if _REQUEST_ID.fullmatch(request_id) is None:
        raise syntax(f"{shown('LS_reqId', request_id)}: expected letters and numbers")
    return request_id


def _control_line(given: Mapping[str, str]) -> Control:
    return _control(Parameters(given), combo=False)


def _control(parameters: Parameters, combo: bool) -> Control:
    request_id = _request_id(parameters, combo)
    operation = parameters.required("LS_op")
    session = parameters.text("LS_session")
    if operation in PUSH_OPERATIONS:
        return parse_push(operation, parameters, session, request_id)
    if operation not in CONTROL_OPERATIONS:
        known = " ".join((*CONTROL_OPERATIONS, *PUSH_OPERATIONS))
        raise syntax(f"{shown('LS_op', operation)}: expected one of {known}")
    if operation == "add":
        return _subscribe(parameters, session, request_id)
    if operation == "delete":
        return Unsubscribe(
            session,
            request_id,
            subscription=parameters.required_integer("LS_subId", 1),
            ack=parameters.boolean("LS_ack", True),
            unknown=unknown(parameters),
        )
    if operation == "reconf":
        frequency = parameters.rate("LS_requested_max_frequency", ("unlimited",))
        return Reconfigure(
            session,
            request_id,
            subscription=parameters.required_integer("LS_subId", 1),
            changes_frequency=frequency is not None,
            max_frequency=frequency if isinstance(frequency, float) else None,
            unknown=unknown(parameters),
        )
    if operation == "constrain":
        return Constrain(
            session,
            request_id,
            changes_bandwidth=parameters.text("LS_requested_max_bandwidth") is not None,
            max_bandwidth=_bandwidth(parameters),
            unknown=unknown(parameters),
        )
    if operation == "force_rebind":
        return ForceRebind(
            session,
            request_id,
            polling_millis=parameters.integer("LS_polling_millis", 0) or 0,
            close_socket=parameters.boolean("LS_close_socket", False),
            unknown=unknown(parameters),
        )
    return Destroy(
        session,
        request_id,
        cause_code=parameters.any_integer("LS_cause_code"),
        cause_message=parameters.text("LS_cause_message"),
        close_socket=parameters.boolean("LS_close_socket", False),
        unknown=unknown(parameters),
    )


def _subscribe(parameters: Parameters, session: str | None, request_id: str) -> Subscribe:
    mode = parameters.choice("LS_mode", MODES)
    frequency = parameters.rate("LS_requested_max_frequency", ("unlimited", "unfiltered"))
    snapshot, snapshot_length = _snapshot(parameters, mode)
    return Subscribe(
        session,
        request_id,
        subscription=parameters.required_integer("LS_subId", 1),
        data_adapter=parameters.text("LS_data_adapter") or "DEFAULT",
        group=parameters.required("LS_group"),
        schema=parameters.required("LS_schema"),
        mode=mode,
        selector=parameters.text("LS_selector"),
        buffer_size=buffer_size(parameters),
        max_frequency=frequency if isinstance(frequency, float) else None,
        unfiltered=frequency == "unfiltered" or mode == "RAW",
        snapshot=snapshot,
        snapshot_length=snapshot_length,
        ack=parameters.boolean("LS_ack", True),
        unknown=unknown(parameters),
    )


def _snapshot(parameters: Parameters, mode: str) -> tuple[bool, int | None]:
    value = parameters.text("LS_snapshot")
    if value is None or value in ("true", "false"):
        return value == "true" and mode != "RAW", None
    if mode != "DISTINCT":
        raise syntax(
            f"{shown('LS_snapshot', value)}: expected true or false; a length is allowed in DISTINCT mode only"
        )
    length = parameters.integer("LS_snapshot", 0)
    return bool(length), length


def _message(given: Mapping[str, str]) -> SendMessage:
    parameters = Parameters(given)
    request_id = _request_id(parameters, combo=False)
    message = parameters.text("LS_message")
    if message is None:
        raise syntax("LS_message is missing")
    sequence = parameters.text("LS_sequence")
    if sequence is not None and (_SEQUENCE.fullmatch(sequence) is None or sequence == RESERVED_SEQUENCE):
        raise syntax(
            f"{shown('LS_sequence', sequence)}: expected letters, digits and underscores, not {RESERVED_SEQUENCE}"
        )
    outcome = parameters.boolean("LS_outcome", True)
    progressive = parameters.integer("LS_msg_prog", 1)
    if progressive is None and (sequence is not None or outcome):
        raise syntax("LS_msg_prog is missing; it is required with LS_sequence, and unless LS_outcome=false")
    return SendMessage(
        parameters.text("LS_session"),
        request_id,
        message=message,
        sequence=sequence,
        progressive=progressive,
        max_wait_millis=parameters.integer("LS_max_wait", 0),
        ack=parameters.boolean("LS_ack", True),
        outcome=outcome,
        unknown=unknown(parameters),
    )


_LINE_PARSERS = {
    "bind_session": _bind_session,
    "control": _control_line,
    "msg": _message,
    "heartbeat": _heartbeat,
}
