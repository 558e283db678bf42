"""What can be wrong with a connection, or with a message of one: the error that the sender or the operator is told."""

from __future__ import annotations

from typing import Final

from penstock.wire.ditto.errors import DittoError, ErrorEntry

CONFIGURATION_INVALID: Final = ErrorEntry(
    400, "connectivity:connection.configuration.invalid", "{0}", "Check the document of the connection."
)
URI_INVALID: Final = ErrorEntry(
    400,
    "connectivity:connection.uri.invalid",
    "The URI of the connection cannot be used: {0}",
    "Expected SCHEME://[USER:PASSWORD@]HOST:PORT.",
)
CONFLICT: Final = ErrorEntry(
    409,
    "connectivity:connection.conflict",
    "The Connection with ID '{0}' already exists.",
    "Choose another ID, or change the connection with PUT.",
)
CONNECTION_FAILED: Final = ErrorEntry(
    504,
    "connectivity:connection.failed",
    "The Connection with ID '{0}' failed to connect: {1}",
    "Check that the broker can be reached, and the credentials.",
)
UNAVAILABLE: Final = ErrorEntry(
    503,
    "connectivity:connection.unavailable",
    "The Connection with ID '{0}' was not changed, because the database of connections does not answer: {1}",
    "Try again later.",
)
ENFORCEMENT_FAILED: Final = ErrorEntry(
    400,
    "connectivity:connection.id.enforcement.failed",
    "The configured filters could not be matched against the given target with ID '{0}'.",
    "Either modify the configured filter or ensure that the message is sent via the correct source.",
)
MAPPING_FAILED: Final = ErrorEntry(
    400,
    "connectivity:message.mapping.failed",
    "The external message could not be mapped: {0}",
    "Compare the message with the payload mapping of its source or target.",
)
PLACEHOLDER_UNRESOLVED: Final = ErrorEntry(
    400,
    "placeholder:unresolved",
    "The placeholder '{0}' could not be resolved.",
    "Some placeholders could not be resolved: the message lacks what they name.",
)


def invalid(what: str, description: str | None = None) -> DittoError:
    """A document that cannot be used; the text names the member, its value, and what is allowed."""
    return CONFIGURATION_INVALID.of(what, description=description)
