"""The requests of the text protocol as typed records, and the parser from request name and parameter lines.

Whether a request can be honoured is decided elsewhere; here only its form is. Specification: 4.1 to 4.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.wire.form import MAX_DIGITS, MAX_ECHO, FormError, Parameters, parse_line, shown, shown_name
from penstock.wire.text6.codec import UNORDERED_MESSAGES
from penstock.wire.text6.errors import Code, RequestError, protocol_error

MODES = ("RAW", "MERGE", "DISTINCT", "COMMAND")
CONTROL_OPERATIONS = ("add", "add_silent", "start", "delete", "reconf", "constrain", "force_rebind", "destroy")

# Parameters of a subscription: they need no debug line when they come where they have no effect.
_SUBSCRIPTION_PARAMETERS = (
    "LS_data_adapter",
    "LS_id",
    "LS_schema",
    "LS_selector",
    "LS_mode",
    "LS_requested_buffer_size",
    "LS_requested_max_frequency",
    "LS_snapshot",
)

_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?|\.[0-9]+", re.ASCII)
_SEQUENCE = re.compile(r"[A-Za-z0-9_]{1,256}", re.ASCII)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a client asks of the connection it creates or binds a session on."""

    max_bandwidth: float | None = None  # None: no limit; on a bind it lifts the previous one
    content_length: int | None = None
    keepalive_millis: int | None = None
    report_info: bool = False
    polling: bool = False
    polling_millis: int = 0
    idle_millis: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """What all requests have: unknown parameters."""

    unknown: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class CreateSession(Request):
    stream: StreamOptions
    user: str | None
    password: str | None = field(repr=False)
    adapter_set: str
    client_id: str | None


@dataclass(frozen=True, slots=True)
class BoundRequest(Request):
    """A request for an existing session; an empty identifier counts as an unknown one."""

    session: str


@dataclass(frozen=True, slots=True)
class BindSession(BoundRequest):
    stream: StreamOptions


@dataclass(frozen=True, slots=True)
class Subscribe(BoundRequest):
    table: int
    silent: bool  # Nothing is sent until `Start`
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


@dataclass(frozen=True, slots=True)
class Start(BoundRequest):
    table: int


@dataclass(frozen=True, slots=True)
class Unsubscribe(BoundRequest):
    table: int


@dataclass(frozen=True, slots=True)
class Reconfigure(BoundRequest):
    table: int
    changes_frequency: bool
    max_frequency: float | None  # None: unlimited


@dataclass(frozen=True, slots=True)
class Constrain(BoundRequest):
    max_bandwidth: float | None  # None: unlimited


@dataclass(frozen=True, slots=True)
class ForceRebind(BoundRequest):
    pass


@dataclass(frozen=True, slots=True)
class Destroy(BoundRequest):
    cause_code: int | None  # Never positive


@dataclass(frozen=True, slots=True)
class SendMessage(BoundRequest):
    message: str
    sequence: str | None  # None: without order
    progressive: int | None  # None: the answer tells the outcome
    max_wait_millis: int | None

    @property
    def is_synchronous(self) -> bool:
        return self.progressive is None


def parse_requests(name: str, lines: Sequence[str], defaults: Mapping[str, str]) -> list[Request | RequestError]:
    """All requests of one HTTP body, in order; a line that is wrong yields its error in its place.

    `defaults` are the parameters of the query string. An unknown request name raises.
    """
    if name not in _LINE_PARSERS:
        raise protocol_error(f"Unknown request name {shown_name(name)}; known: {', '.join(REQUESTS)}")
    if name in ("create_session", "bind_session") and len(lines) > 1:
        return [protocol_error(f"{name} takes one line of parameters, found {len(lines)}")]
    return [_parse(name, line, defaults) for line in lines]


def _parse(name: str, line: str, defaults: Mapping[str, str]) -> Request | RequestError:
    try:
        given = {**_plain(defaults), **_plain(parse_line(line))}
        version = given.get("LS_protocol")
        if version is not None:
            raise protocol_error(f"{shown('LS_protocol', version)}: expected only in the query string")
        return _LINE_PARSERS[name](Parameters(given))
    except RequestError as error:
        return error
    except FormError as form:
        return protocol_error(form.message)


def _plain(given: Mapping[str, str]) -> dict[str, str]:
    """The parameters under the names of the specification: published clients also write LS_Table and LS_Snapshot."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if name[:3].upper() == "LS_":
            name = f"LS_{name[3:].lower()}"
        if name in found:
            raise protocol_error(f"Parameter {name[:MAX_ECHO]} is given twice")
        found[name] = value
    return found


def _unknown(parameters: Parameters) -> tuple[str, ...]:
    return tuple(parameters.unknown())


def _session(parameters: Parameters) -> str:
    session = parameters.text("LS_session")
    if session is None:
        raise protocol_error("LS_session is missing")
    return session


def _limit(parameters: Parameters, name: str, words: tuple[str, ...] = ()) -> float | str | None:
    """A decimal number from zero, or one of some words; None if absent."""
    value = parameters.text(name)
    if value is None or value in words:
        return value
    if _DECIMAL.fullmatch(value) is None or len(value) > MAX_DIGITS:
        raise protocol_error(f"{shown(name, value)}: expected {' or '.join(('a decimal number from 0', *words))}")
    return float(value)


def _rate(limit: float | str | None) -> float | None:
    """In this protocol zero always means no limit."""
    return limit if isinstance(limit, float) and limit > 0 else None


def _stream_options(parameters: Parameters) -> StreamOptions:
    return StreamOptions(
        max_bandwidth=_rate(_limit(parameters, "LS_requested_max_bandwidth")),
        content_length=parameters.integer("LS_content_length", 0),
        keepalive_millis=parameters.integer("LS_keepalive_millis", 0),
        report_info=parameters.boolean("LS_report_info", False),
        polling=parameters.boolean("LS_polling", False),
        polling_millis=parameters.integer("LS_polling_millis", 0) or 0,
        idle_millis=parameters.integer("LS_idle_millis", 0) or 0,
    )


def _create_session(parameters: Parameters) -> CreateSession:
    operation = parameters.text("LS_op2")
    if operation is None:
        raise protocol_error("LS_op2 is missing; expected LS_op2=create, or LS_protocol in the query string")
    if operation != "create":
        raise protocol_error(f"{shown('LS_op2', operation)}: expected create")
    return CreateSession(
        stream=_stream_options(parameters),
        user=parameters.text("LS_user"),
        password=parameters.text("LS_password"),
        adapter_set=parameters.text("LS_adapter_set") or "DEFAULT",
        client_id=parameters.text("LS_cid"),
        unknown=_unknown(parameters),
    )


def _bind_session(parameters: Parameters) -> BindSession:
    return BindSession(_session(parameters), stream=_stream_options(parameters), unknown=_unknown(parameters))


def _control(parameters: Parameters) -> BoundRequest:
    operation = parameters.choice("LS_op", CONTROL_OPERATIONS)
    session = _session(parameters)
    if operation in ("add", "add_silent"):
        return _subscribe(parameters, session, operation == "add_silent")
    if operation in ("start", "delete"):
        kind = Start if operation == "start" else Unsubscribe
        return kind(session, table=_table(parameters), unknown=_unknown_beside_subscription(parameters))
    if operation == "reconf":
        return _reconfigure(parameters, session)
    if operation == "constrain":
        limit = _rate(_limit(parameters, "LS_requested_max_bandwidth"))
        return Constrain(session, max_bandwidth=limit, unknown=_unknown(parameters))
    if operation == "force_rebind":
        return ForceRebind(session, unknown=_unknown(parameters))
    cause = parameters.any_integer("LS_cause_code")
    return Destroy(session, cause_code=None if cause is None else min(0, cause), unknown=_unknown(parameters))


def _table(parameters: Parameters) -> int:
    return parameters.required_integer("LS_table", 1)


def _unknown_beside_subscription(parameters: Parameters) -> tuple[str, ...]:
    """The specification says both that `start` must and that it must not repeat the subscription: it is ignored."""
    return tuple(name for name in parameters.unknown() if name not in _SUBSCRIPTION_PARAMETERS)


def _reconfigure(parameters: Parameters, session: str) -> Reconfigure:
    frequency = _limit(parameters, "LS_requested_max_frequency")
    return Reconfigure(
        session,
        table=_table(parameters),
        changes_frequency=frequency is not None,
        max_frequency=_rate(frequency),
        unknown=_unknown(parameters),
    )


def _subscribe(parameters: Parameters, session: str, silent: bool) -> Subscribe:
    table = _table(parameters)
    mode = parameters.choice("LS_mode", MODES)
    frequency = _limit(parameters, "LS_requested_max_frequency", ("unfiltered",))
    snapshot, snapshot_length = _snapshot(parameters, mode)
    return Subscribe(
        session,
        table=table,
        silent=silent,
        data_adapter=parameters.text("LS_data_adapter") or "DEFAULT",
        group=_name(parameters, "LS_id", Code.GROUP),
        schema=_name(parameters, "LS_schema", Code.SCHEMA),
        mode=mode,
        selector=parameters.text("LS_selector"),
        buffer_size=parameters.integer("LS_requested_buffer_size", 0),
        max_frequency=_rate(frequency),
        unfiltered=frequency == "unfiltered" or mode == "RAW",
        snapshot=snapshot,
        snapshot_length=snapshot_length,
        unknown=_unknown(parameters),
    )


def _name(parameters: Parameters, name: str, code: Code) -> str:
    """A name that the metadata adapter interprets: there is a code for an invalid one, also if it is missing."""
    value = parameters.text(name)
    if not value:
        raise RequestError(code, f"{name} is missing" if value is None else f"{name} is empty")
    return value


def _snapshot(parameters: Parameters, mode: str) -> tuple[bool, int | None]:
    value = parameters.text("LS_snapshot")
    if value is None or value in ("true", "false"):
        return value == "true" and mode != "RAW", None
    if mode != "DISTINCT":
        raise protocol_error(
            f"{shown('LS_snapshot', value)}: expected true or false; a length is allowed in DISTINCT mode only"
        )
    length = parameters.integer("LS_snapshot", 0)
    return bool(length), length


def _message(parameters: Parameters) -> SendMessage:
    session = _session(parameters)
    message = parameters.text("LS_message")
    if message is None:
        raise protocol_error("LS_message is missing")
    sequence = parameters.text("LS_sequence")
    if sequence is not None and _SEQUENCE.fullmatch(sequence) is None:
        raise protocol_error(f"{shown('LS_sequence', sequence)}: expected letters, digits and underscores, at most 256")
    progressive = parameters.integer("LS_msg_prog", 1)
    if (sequence is None) != (progressive is None):
        absent, present = ("LS_sequence", "LS_msg_prog") if sequence is None else ("LS_msg_prog", "LS_sequence")
        raise protocol_error(f"{absent} is missing; it is required with {present}")
    return SendMessage(
        session,
        message=message,
        sequence=None if sequence == UNORDERED_MESSAGES else sequence,
        progressive=progressive,
        max_wait_millis=parameters.integer("LS_max_wait", 0),
        unknown=_unknown(parameters),
    )


_LINE_PARSERS = {
    "create_session": _create_session,
    "bind_session": _bind_session,
    "control": _control,
    "send_message": _message,
}

REQUESTS = tuple(_LINE_PARSERS)
