"""From the kernel's reasons to the codes of appendices A and B, and to the parameter each is about."""

from __future__ import annotations

from penstock.kernel.errors import Reason, Refusal
from penstock.log import get
from penstock.wire.tlcp.errors import ControlCode, RequestError, SessionCode

log = get(__name__)

# The published test suites of clients compare these texts as a whole, so nothing may be added to them.
_LITERAL = {
    Reason.ADAPTER_SET: "Requested Adapter Set not available",
    Reason.DATA_ADAPTER: "Data Adapter not found",
    Reason.MODE: "Invalid mode for these items",
}

_SESSION_CODES = {
    Reason.CREDENTIALS: SessionCode.CREDENTIALS,
    Reason.ADAPTER_SET: SessionCode.ADAPTER_SET,
    Reason.AUTHORITY_UNAVAILABLE: SessionCode.AUTHORITY_UNAVAILABLE,
    Reason.AUTHORITY_ERROR: SessionCode.AUTHORITY_ERROR,
    Reason.OVERLOADED: SessionCode.OVERLOADED,
    Reason.MAX_LOAD: SessionCode.MAX_LOAD,
    Reason.BLOCKED: SessionCode.BLOCKED,
    # Clients take the code for blocked sessions as final, and this one as a reason to try again at once.
    Reason.DRAINING: SessionCode.OVERLOADED,
    Reason.MAX_SESSIONS: SessionCode.MAX_SESSIONS,
    Reason.UNKNOWN_SESSION: SessionCode.UNKNOWN_SESSION,
    Reason.FOREIGN_SESSION: SessionCode.FOREIGN_SESSION,
    Reason.ENDED_SESSION: SessionCode.UNKNOWN_SESSION,
    Reason.PROTOCOL_MISMATCH: SessionCode.PROTOCOL_MISMATCH,
    Reason.RECOVERY: SessionCode.RECOVERY,
}

_CONTROL_CODES = {
    Reason.UNKNOWN_SESSION: ControlCode.UNKNOWN_SESSION,
    Reason.FOREIGN_SESSION: ControlCode.FOREIGN_SESSION,
    Reason.ENDED_SESSION: ControlCode.UNKNOWN_SESSION,
    Reason.PROTOCOL_MISMATCH: ControlCode.PROTOCOL_MISMATCH,
    Reason.AUTHORITY_ERROR: ControlCode.AUTHORITY_ERROR,
    Reason.DATA_ADAPTER: ControlCode.DATA_ADAPTER,
    Reason.GROUP: ControlCode.GROUP,
    Reason.GROUP_FOR_SCHEMA: ControlCode.GROUP_FOR_SCHEMA,
    Reason.SCHEMA: ControlCode.SCHEMA,
    Reason.MODE: ControlCode.MODE,
    Reason.SELECTOR: ControlCode.SELECTOR,
    Reason.UNKNOWN_SUBSCRIPTION: ControlCode.UNKNOWN_SUBSCRIPTION,
    Reason.INVALID: ControlCode.SYNTAX,
    Reason.UNFILTERED: ControlCode.UNFILTERED,
    Reason.UNFILTERED_LIMITED: ControlCode.UNFILTERED_LIMITED,
    Reason.UNFILTERED_PREFILTERED: ControlCode.UNFILTERED_PREFILTERED,
    Reason.NO_KEY_FIELD: ControlCode.NO_KEY_FIELD,
    Reason.NO_COMMAND_FIELD: ControlCode.NO_COMMAND_FIELD,
    Reason.MESSAGE_TOO_LOW: ControlCode.MESSAGE_TOO_LOW,
    Reason.MESSAGE_DUPLICATE: ControlCode.MESSAGE_DUPLICATE,
    Reason.MESSAGE_FAILED: ControlCode.MESSAGE_FAILED,
    Reason.APPLICATION: ControlCode.PUSH_APPLICATION,
}

_PARAMETERS = {
    Reason.UNKNOWN_SESSION: "LS_session",
    Reason.FOREIGN_SESSION: "LS_session",
    Reason.ENDED_SESSION: "LS_session",
    Reason.PROTOCOL_MISMATCH: "LS_protocol",
    Reason.RECOVERY: "LS_recovery_from",
    Reason.GROUP: "LS_group",
    Reason.GROUP_FOR_SCHEMA: "LS_schema",
    Reason.SCHEMA: "LS_schema",
    Reason.SELECTOR: "LS_selector",
    Reason.UNKNOWN_SUBSCRIPTION: "LS_subId",
    Reason.INVALID: "LS_subId",
    Reason.UNFILTERED: "LS_requested_max_frequency",
    Reason.UNFILTERED_LIMITED: "LS_requested_max_frequency",
    Reason.UNFILTERED_PREFILTERED: "LS_requested_max_frequency",
    Reason.NO_KEY_FIELD: "LS_schema",
    Reason.NO_COMMAND_FIELD: "LS_schema",
    Reason.MESSAGE_TOO_LOW: "LS_msg_prog",
    Reason.MESSAGE_DUPLICATE: "LS_msg_prog",
    Reason.APPLICATION: "PN_appId",
}


def _message(refusal: Refusal) -> str:
    """The text for the client. If that is fixed, the details are only in the log."""
    if refusal.code is not None:
        return refusal.message
    literal = _LITERAL.get(refusal.reason)
    if literal is not None:
        log.info("request refused", told=literal, reason=refusal.message)
        return literal
    parameter = _PARAMETERS.get(refusal.reason)
    return refusal.message if parameter is None else f"{parameter}: {refusal.message}"


def session_error(refusal: Refusal) -> RequestError:
    """For CONERR. An adapter's own code is passed on; a reason without a code is an internal error."""
    code = refusal.code if refusal.code is not None else _SESSION_CODES.get(refusal.reason, SessionCode.INTERNAL)
    return RequestError(int(code), _message(refusal))


def control_error(refusal: Refusal, request_id: str) -> RequestError:
    """For REQERR."""
    code = refusal.code if refusal.code is not None else _CONTROL_CODES.get(refusal.reason, ControlCode.INTERNAL)
    return RequestError(int(code), _message(refusal), request_id)
