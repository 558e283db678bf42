"""What the requests of TLCP have in common, and the parameters that several control requests share.

The requests themselves are in `requests` and `push`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.wire.form import Parameters

MODES = ("RAW", "MERGE", "DISTINCT", "COMMAND")

# Parameters that every official client sends for its own purposes; they need no debug line.
_HARMLESS = ("LS_protocol", "LS_session", "LS_cause", "LS_old_session", "LS_unq", "LS_domain")


@dataclass(frozen=True, slots=True)
class Request:
    """What all requests have: the session they name, if any, and unknown parameters."""

    session: str | None
    unknown: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Control(Request):
    """A control request; `request_id` is empty inside a combo request."""

    request_id: str


def unknown(parameters: Parameters) -> tuple[str, ...]:
    """The parameters of a request that it does not have; they are ignored."""
    return tuple(name for name in parameters.unknown() if name not in _HARMLESS)


def buffer_size(parameters: Parameters) -> int | None:
    """None: not requested; 0: unlimited."""
    if parameters.text("LS_requested_buffer_size") == "unlimited":
        return 0
    return parameters.integer("LS_requested_buffer_size", 1)
