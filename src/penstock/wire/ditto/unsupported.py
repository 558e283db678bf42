"""Headers that ask for what this server does not do: each is refused, because its sender relies on it.

Supported headers are read where they are used. Upstream documentation: "Ditto Protocol specification", headers.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.ditto.document import Json, text_of
from penstock.wire.ditto.envelope import Headers, boolean_header
from penstock.wire.ditto.errors import HEADER_INVALID, HEADER_UNSUPPORTED

# The acknowledgement that every answer of this server implies: the change is on the disk.
PERSISTED: Final = "twin-persisted"

# The only supported version of things and policies.
_VERSION: Final = "2"

_NO_METADATA: Final = "This server does not support metadata of things."
_NO_LIVE: Final = "This server has no live channel: twins answer for their things."

# Refused whatever their value, with the reason.
_NEVER: Final[dict[str, str]] = {
    "put-metadata": _NO_METADATA,
    "get-metadata": _NO_METADATA,
    "delete-metadata": _NO_METADATA,
    "live-channel-condition": _NO_LIVE,
    "live-channel-timeout-strategy": _NO_LIVE,
    "declared-acks": "This server does not support acknowledgements.",
    "merge-thing-patch-conditions": "A merge is done as a whole, or not at all. Use 'condition', or several merges.",
}

NAMES: Final = (*_NEVER, "requested-acks", "channel", "allow-policy-lockout")

# Headers that some commands ignore.
_TAGS: Final = ("if-match", "if-none-match")
_MOMENTS: Final = ("at-historical-revision", "at-historical-timestamp")


def check_headers(headers: Headers) -> None:
    """Raises `header.notsupported`, or `header.invalid` for an invalid value."""
    for name, reason in _NEVER.items():
        if name in headers:
            raise HEADER_UNSUPPORTED.of(_text(headers[name]), name, description=reason)
    _check_acknowledgements(headers.get("requested-acks"))
    channel = headers.get("channel")
    if channel == "live":
        raise HEADER_UNSUPPORTED.of(channel, "channel", description=_NO_LIVE)
    if channel is not None and channel != "twin":
        raise HEADER_INVALID.of(_text(channel), "channel", "channel: twin or live")
    if boolean_header(headers, "allow-policy-lockout", False):
        reason = "A policy must keep a subject that may write it, because nobody could ever change it otherwise."
        raise HEADER_UNSUPPORTED.of("true", "allow-policy-lockout", description=reason)
    version = headers.get("version")
    if version is not None and _text(version) != _VERSION:
        raise HEADER_UNSUPPORTED.of(_text(version), "version", description=f"Only version {_VERSION} is supported.")


def check_unconditional(headers: Headers) -> None:
    """For a policy's command: raises `header.notsupported`."""
    _refuse(headers, ("condition",), "Conditions are about things; use 'if-match' for a policy.")


def check_present(headers: Headers) -> None:
    """For a command that changes something: raises `header.notsupported`."""
    _refuse(headers, _MOMENTS, "The past can be retrieved but not changed.")


def check_plain(headers: Headers) -> None:
    """For what is about several things, or for a stream of events: raises `header.notsupported`."""
    _refuse(headers, ("condition", *_TAGS, *_MOMENTS), "The header is only for commands about one thing.")


def _refuse(headers: Headers, names: tuple[str, ...], reason: str) -> None:
    for name in names:
        if name in headers:
            raise HEADER_UNSUPPORTED.of(_text(headers[name]), name, description=reason)


def _check_acknowledgements(given: Json) -> None:
    """A list, or a text with the list in it, as JSON or separated by commas."""
    if given is None:
        return
    labels = given
    if type(given) is str:
        labels = [label.strip(' "') for label in given.strip("[] ").split(",")]
    if labels != [PERSISTED]:
        reason = f"Only the acknowledgement '{PERSISTED}' is supported. Every answer implies it: leave the header out."
        raise HEADER_UNSUPPORTED.of(_text(given), "requested-acks", description=reason)


def _text(value: Json) -> str:
    return value if type(value) is str else text_of(value)
