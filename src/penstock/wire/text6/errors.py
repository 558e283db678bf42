"""The catalogue of error codes that this server can send in the text protocol, and the exceptions of this package.

What the protocol has no number for (a bad parameter, a failure of the server) is answered with HTTP error 500.
Specification: the lists of `err_code` in sections 4.1 to 4.4 and 4.5.4; the causes of END, in 4.5.6, are the kernel's.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Why a request, a subscription or a message was refused. Zero and below are for metadata adapters."""

    CREDENTIALS = 1
    ADAPTER_SET = 2
    PROTOCOL_MISMATCH = 3
    MAX_SESSIONS = 8
    MAX_LOAD = 9
    BLOCKED = 10
    UNFILTERED = 13
    DATA_ADAPTER = 17
    UNKNOWN_TABLE = 19
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


class RequestError(Exception):
    """The peer's request cannot be honoured: a text that names the offending parameter, and the code to answer with.

    Without a code the answer is HTTP error 500; in a batch it replaces all others and ends the processing.
    """

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class BadPush(Exception):
    """What a server has sent does not follow this protocol; the text says where."""


def protocol_error(message: str) -> RequestError:
    """A request that does not follow this protocol, or has an invalid parameter."""
    return RequestError(None, message)
