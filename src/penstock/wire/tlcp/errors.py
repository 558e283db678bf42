"""The catalogue of TLCP error codes that this server can send, and the exception that carries one.

Each code exists in the session context (CONERR, END: appendix A) or the control context (REQERR, ERROR, MSGFAIL:
appendix B).
"""

from __future__ import annotations

from enum import IntEnum

from penstock.wire.form import FormError


class SessionCode(IntEnum):
    """Appendix A: why a session could not be opened or bound, or has ended."""

    CREDENTIALS = 1
    ADAPTER_SET = 2
    PROTOCOL_MISMATCH = 3
    RECOVERY = 4
    OVERLOADED = 5
    AUTHORITY_UNAVAILABLE = 6
    MAX_SESSIONS = 8
    MAX_LOAD = 9
    BLOCKED = 10
    UNKNOWN_SESSION = 20
    FOREIGN_SESSION = 21
    DESTROYED_BY_CLIENT = 31
    CLOSED_BY_SERVER = 32
    UNEXPECTED = 33
    REBOUND_ELSEWHERE = 40
    MAX_DURATION = 48
    COMBO = 64
    SYNTAX = 65
    AUTHORITY_ERROR = 66
    MALFORMED = 67
    INTERNAL = 68
    ALREADY_STREAMING = 69
    NOT_AT_THIS_PORT = 70
    CLIENT_TYPE = 71


class ControlCode(IntEnum):
    """Appendix B: why a control request, a subscription or a message was refused."""

    PROTOCOL_MISMATCH = 3
    FOREIGN_SESSION = 11
    UNFILTERED = 13
    NO_KEY_FIELD = 15
    NO_COMMAND_FIELD = 16
    DATA_ADAPTER = 17
    UNKNOWN_SUBSCRIPTION = 19
    UNKNOWN_SESSION = 20
    GROUP = 21
    GROUP_FOR_SCHEMA = 22
    SCHEMA = 23
    MODE = 24
    SELECTOR = 25
    UNFILTERED_LIMITED = 26
    UNFILTERED_PREFILTERED = 27
    MESSAGE_TOO_LOW = 32
    MESSAGE_DUPLICATE = 33
    MESSAGE_FAILED = 34
    MESSAGE_ERROR = 35
    MESSAGE_SKIPPED = 38
    MESSAGES_SKIPPED = 39
    PUSH_DISABLED = 40
    PUSH_UNAVAILABLE = 41
    PUSH_PLATFORM = 42
    PUSH_APPLICATION = 43
    PUSH_TRIGGER = 44
    PUSH_DEVICE = 45
    PUSH_SUBSCRIPTION = 46
    PUSH_ARGUMENT = 47
    PUSH_SUSPENDED = 48
    PUSH_TOO_LONG = 49
    PUSH_EMPTY = 50
    PUSH_PAYLOAD_TOO_LARGE = 51
    PUSH_FORMAT_NOT_JSON = 52
    PUSH_FORMAT_EMPTY = 53
    PUSH_MISMATCH = 56
    SYNTAX = 65
    AUTHORITY_ERROR = 66
    MALFORMED = 67
    INTERNAL = 68


class RequestError(Exception):
    """The peer's request cannot be honoured: the code to answer with and a text that names the offending parameter."""

    def __init__(self, code: int, message: str, request_id: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id


def syntax(message: str) -> RequestError:
    """A parameter is missing or its value is not allowed (65)."""
    return RequestError(ControlCode.SYNTAX, message)


def malformed(message: str) -> RequestError:
    """The text is not a request at all (67)."""
    return RequestError(ControlCode.MALFORMED, message)


def form_error(error: FormError, request_id: str | None = None) -> RequestError:
    """For a line that is not a form, or an invalid parameter."""
    code = ControlCode.MALFORMED if error.is_malformed else ControlCode.SYNTAX
    return RequestError(code, error.message, request_id)


def combo(error: RequestError) -> RequestError:
    """The control part of a combo request has failed (64): with the code and text it would have had on its own."""
    return RequestError(int(SessionCode.COMBO), f"Error {int(error.code)} in the control request: {error.message}")
