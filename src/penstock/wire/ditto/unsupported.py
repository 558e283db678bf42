"""Headers that ask for what this server does not do: each is refused, because its sender relies on it.

Supported headers are read where they are used. Upstream documentation: "Ditto Protocol specification", headers.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.ditto import metadata
from penstock.wire.ditto.acks import PERSISTED, labels_in
from penstock.wire.ditto.document import Json, text_of
from penstock.wire.ditto.envelope import Headers, boolean_header
from penstock.wire.ditto.errors import HEADER_INVALID, HEADER_UNSUPPORTED

# The only supported version of things and policies.
_VERSION: Final = "2"

_NO_CONDITION: Final = "Whether a twin or its thing answers cannot depend on the twin: use the channel live, or twin."

# Refused whatever their value, with the reason.
_NEVER: Final[dict[str, str]] = {
    "live-channel-condition": _NO_CONDITION,
    "live-channel-timeout-strategy": _NO_CONDITION,
}

# Conditions for single parts of a merge patch.
PATCH_CONDITIONS: Final = "merge-thing-patch-conditions"

NAMES: Final = (*_NEVER, "allow-policy-lockout")

# Headers that some commands ignore.
_TAGS: Final = ("if-match", "if-none-match")
_MOMENTS: Final = ("at-historical-revision", "at-historical-timestamp")


def check_headers(headers: Headers) -> None:
    """Raises `header.notsupported`, or `header.invalid` for an invalid value."""
    for name, reason in _NEVER.items():
        if name in headers:
            raise HEADER_UNSUPPORTED.of(_text(headers[name]), name, description=reason)
    channel = headers.get("channel")
    if channel is not None and channel not in ("twin", "live"):
        raise HEADER_INVALID.of(_text(channel), "channel", "channel: twin or live")
    if boolean_header(headers, "allow-policy-lockout", False):
        reason = "A policy must keep a subject that may write it, because nobody could ever change it otherwise."
        raise HEADER_UNSUPPORTED.of("true", "allow-policy-lockout", description=reason)
    version = headers.get("version")
    if version is not None and _text(version) != _VERSION:
        raise HEADER_UNSUPPORTED.of(_text(version), "version", description=f"Only version {_VERSION} is supported.")


def check_unconditional(headers: Headers) -> None:
    """For a policy's command: raises `header.notsupported`."""
    _refuse(headers, ("condition", PATCH_CONDITIONS), "Conditions are about things; use 'if-match' for a policy.")
    _refuse(headers, metadata.NAMES, "Only things have metadata.")
    _refuse_live(headers)
    if labels_in(headers, "requested-acks") not in (None, (), (PERSISTED,)):
        reason = f"A policy has no acknowledgements but '{PERSISTED}', which its answer implies."
        raise HEADER_UNSUPPORTED.of(_text(headers["requested-acks"]), "requested-acks", description=reason)


def check_present(headers: Headers) -> None:
    """For a command that changes something: raises `header.notsupported`."""
    _refuse(headers, _MOMENTS, "The past can be retrieved but not changed.")


def check_no_patch(headers: Headers) -> None:
    """For a command that is not a merge: raises `header.notsupported`."""
    _refuse(headers, (PATCH_CONDITIONS,), "It is for merge commands; use 'condition' for others.")


def check_no_thing(headers: Headers) -> None:
    """For what is not a command to a thing: raises `header.notsupported`."""
    _refuse(headers, (PATCH_CONDITIONS, *metadata.NAMES), "The header is only for commands about one thing.")


def check_plain(headers: Headers) -> None:
    """For what is about several things, or for a stream of events: raises `header.notsupported`."""
    _refuse(
        headers,
        ("condition", PATCH_CONDITIONS, *metadata.NAMES, *_TAGS, *_MOMENTS),
        "The header is only for commands about one thing.",
    )
    _refuse_live(headers)


def _refuse_live(headers: Headers) -> None:
    if headers.get("channel") == "live":
        raise HEADER_UNSUPPORTED.of("live", "channel", description="Only a command about one thing can be sent live.")


def _refuse(headers: Headers, names: tuple[str, ...], reason: str) -> None:
    for name in names:
        if name in headers:
            raise HEADER_UNSUPPORTED.of(_text(headers[name]), name, description=reason)


def _text(value: Json) -> str:
    return value if type(value) is str else text_of(value)
