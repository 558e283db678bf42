"""From the kernel's reasons to the codes of the text protocol; one that has none is a protocol error (HTTP 500)."""

from __future__ import annotations

from penstock.kernel.errors import Reason, Refusal
from penstock.wire.text6.errors import Code, RequestError

# A session that does not exist is not an error with a code but has an answer of its own.
LOST_SESSION = (Reason.UNKNOWN_SESSION, Reason.FOREIGN_SESSION, Reason.ENDED_SESSION)

_CODES = {
    Reason.CREDENTIALS: Code.CREDENTIALS,
    Reason.ADAPTER_SET: Code.ADAPTER_SET,
    Reason.PROTOCOL_MISMATCH: Code.PROTOCOL_MISMATCH,
    Reason.MAX_SESSIONS: Code.MAX_SESSIONS,
    # This protocol has one code for too high a load.
    Reason.OVERLOADED: Code.MAX_LOAD,
    Reason.MAX_LOAD: Code.MAX_LOAD,
    Reason.BLOCKED: Code.BLOCKED,
    # The code that tells clients to come back later.
    Reason.DRAINING: Code.BLOCKED,
    Reason.AUTHORITY_UNAVAILABLE: Code.BLOCKED,
    Reason.UNFILTERED: Code.UNFILTERED,
    Reason.DATA_ADAPTER: Code.DATA_ADAPTER,
    Reason.UNKNOWN_SUBSCRIPTION: Code.UNKNOWN_TABLE,
    Reason.GROUP: Code.GROUP,
    Reason.GROUP_FOR_SCHEMA: Code.GROUP_FOR_SCHEMA,
    Reason.SCHEMA: Code.SCHEMA,
    Reason.NO_KEY_FIELD: Code.SCHEMA,
    Reason.NO_COMMAND_FIELD: Code.SCHEMA,
    Reason.MODE: Code.MODE,
    Reason.SELECTOR: Code.SELECTOR,
    Reason.UNFILTERED_LIMITED: Code.UNFILTERED_LIMITED,
    Reason.UNFILTERED_PREFILTERED: Code.UNFILTERED_PREFILTERED,
    Reason.MESSAGE_TOO_LOW: Code.MESSAGE_TOO_LOW,
    Reason.MESSAGE_DUPLICATE: Code.MESSAGE_DUPLICATE,
    Reason.MESSAGE_FAILED: Code.MESSAGE_FAILED,
}

_PARAMETERS = {
    Reason.ADAPTER_SET: "LS_adapter_set",
    Reason.PROTOCOL_MISMATCH: "LS_session",
    Reason.UNFILTERED: "LS_requested_max_frequency",
    Reason.DATA_ADAPTER: "LS_data_adapter",
    Reason.UNKNOWN_SUBSCRIPTION: "LS_table",
    Reason.INVALID: "LS_table",
    Reason.GROUP: "LS_id",
    Reason.GROUP_FOR_SCHEMA: "LS_schema",
    Reason.SCHEMA: "LS_schema",
    Reason.NO_KEY_FIELD: "LS_schema",
    Reason.NO_COMMAND_FIELD: "LS_schema",
    Reason.MODE: "LS_mode",
    Reason.SELECTOR: "LS_selector",
    Reason.UNFILTERED_LIMITED: "LS_requested_max_frequency",
    Reason.UNFILTERED_PREFILTERED: "LS_requested_max_frequency",
    Reason.MESSAGE_TOO_LOW: "LS_msg_prog",
    Reason.MESSAGE_DUPLICATE: "LS_msg_prog",
}


def request_error(refusal: Refusal) -> RequestError:
    """An adapter's own code is passed on."""
    if refusal.code is not None:
        return RequestError(refusal.code, refusal.message)
    parameter = _PARAMETERS.get(refusal.reason)
    message = refusal.message if parameter is None else f"{parameter}: {refusal.message}"
    return RequestError(_CODES.get(refusal.reason), message)
