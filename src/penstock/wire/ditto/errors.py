"""The catalogue of Ditto's errors: code, status and texts, and the exception that carries one to the door.

Those about things and policies are in `thing_errors` and `policy_errors`. A client should look at the status; codes and
texts are as upstream has them today. When each is sent: docs/ditto.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

# How many characters of what a client sent an error text quotes.
MAX_ECHO = 256

ID_NOTATION = "https://www.eclipse.dev/ditto/basic-namespaces-and-names.html#namespaced-id"
CHECK_ID = "Check if the ID of your requested {} was correct and you have sufficient permissions."
CHECK_HISTORY = (
    "Check if the ID of your requested {} was correct, you have sufficient permissions and ensure that the asked for"
    " revision/timestamp does not exceed the history-retention-duration or is from the future."
)
# Two texts: nothing was to be changed.
NOTHING_CHANGED: Final = (
    "The previous value was equal to the new value and the 'if-equal' header was set to 'skip'.",
    "Your changes were not applied, which is probably the expected outcome.",
)


class DittoError(Exception):
    """The peer's message cannot be honoured: everything the answer says."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        description: str | None = None,
        href: str | None = None,
        details: dict[str, list[str]] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.description = description
        self.href = href
        # Complaints by the place of the value that they are about.
        self.details = details

    def as_value(self) -> dict[str, Any]:
        """The error as JSON: the value of an error response, the `error` of a failed subscription, an HTTP body."""
        value: dict[str, Any] = {"status": self.status, "error": self.code, "message": self.message}
        if self.description is not None:
            value["description"] = self.description
        if self.href is not None:
            value["href"] = self.href
        if self.details:
            value["validationDetails"] = self.details
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DittoError) and self.as_value() == other.as_value()

    def __hash__(self) -> int:
        return hash((self.status, self.code, self.message))


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One line of the catalogue; `{0}` and so on in its message are filled in by `of`."""

    status: int
    code: str
    message: str
    description: str | None = None
    href: str | None = None

    def of(self, *arguments: object, description: str | None = None) -> DittoError:
        """The error about these arguments, with the entry's description unless a better one is given."""
        texts = [shown(str(argument)) for argument in arguments]
        return DittoError(
            self.status,
            self.code,
            self.message.format(*texts),
            self.description if description is None else description,
            self.href,
        )


def shown(text: str) -> str:
    """What a client sent, cut short for an error text."""
    return text if len(text) <= MAX_ECHO else text[:MAX_ECHO] + "…"


# -- what is wrong with the message itself -----------------------------------------------------------------------------

JSON_INVALID: Final = ErrorEntry(
    400,
    "json.invalid",
    "{0}",
    "Check if the JSON was valid (e.g. on https://jsonlint.com) and if it was in required format.",
)
FIELD_MISSING: Final = ErrorEntry(
    400,
    "json.field.missing",
    "JSON did not include required <{0}> field!",
    "Check if all required JSON fields were set.",
)
POINTER_INVALID: Final = ErrorEntry(
    400,
    "json.pointer.invalid",
    "The JSON pointer <{0}> is invalid!",
    "Consecutive slashes in JSON pointers are not supported.",
)
KEY_INVALID: Final = ErrorEntry(
    400,
    "json.key.invalid",
    "The JSON key <{0}> is invalid!",
    "Neither slashes nor any control characters are allowed as part of the JSON key.",
)
FIELD_SELECTOR_INVALID: Final = ErrorEntry(
    400,
    "json.fieldselector.invalid",
    "The field selector <{0}> is invalid!",
    "Check, for example, if the amount of opening parentheses '(' matches the amount of closing ones ')'.",
)
UNKNOWN_TOPIC: Final = ErrorEntry(
    400,
    "protocoladapter:unknown.topicpath",
    "The topic path '{0}' is not supported.",
    "Check if the topic path is correct.",
)
UNKNOWN_PATH: Final = ErrorEntry(
    400,
    "protocoladapter:unknown.path",
    "The path '{0}' does not correspond to any known command, response or event.",
    "Check if the path is correct.",
)
UNKNOWN_SIGNAL: Final = ErrorEntry(
    400,
    "protocoladapter:unknown.signal",
    "The signal '{0}' is not supported by the adapter.",
    "Check if the signal is correct.",
)
UNSUPPORTED_SIGNAL: Final = ErrorEntry(
    400,
    "signal.unsupported",
    "The provided signal '{0}' is not supported.",
    "Check if you specified the correct resource/path and payload.",
)
HEADER_INVALID: Final = ErrorEntry(
    400,
    "header.invalid",
    "The value '{0}' of the header '{1}' is not a valid {2}.",
    "Verify that the header has the correct syntax and try again.",
)
HEADER_UNSUPPORTED: Final = ErrorEntry(
    400,
    "header.notsupported",
    "The value '{0}' of the header '{1}' is not supported.",
    "Leave the header out.",
)
ROUTE_UNKNOWN: Final = ErrorEntry(
    404,
    "gateway:route.notfound",
    "Not found: '{0}'.",
    "Check if the path of the address is correct.",
)
METHOD_NOT_ALLOWED: Final = ErrorEntry(
    405,
    "gateway:method.notallowed",
    "The method '{0}' is not allowed at '{1}'.",
)
COMMAND_TIMEOUT: Final = ErrorEntry(
    408,
    "command.timeout",
    "The command was not answered within {0} seconds.",
    "Whether it was carried out is not known. Retrieve the entity to find out.",
)
MEDIA_TYPE_UNSUPPORTED: Final = ErrorEntry(
    415,
    "mediatype.unsupported",
    "The Content-Type '{0}' is not supported for this resource.",
)
RQL_INVALID: Final = ErrorEntry(
    400,
    "rql.expression.invalid",
    "The given RQL expression was invalid: {0}",
    "Ensure that all opening parentheses have also closing ones and that the RQL expression is valid.",
)

# -- the server and who may use it -------------------------------------------------------------------------------------

INTERNAL: Final = ErrorEntry(500, "internalerror", "There was a rare case of an unexpected internal error.")
TOO_MANY_REQUESTS: Final = ErrorEntry(429, "too.many.requests", "{0}")
AUTHENTICATION_FAILED: Final = ErrorEntry(
    401, "gateway:authentication.failed", "{0}", "Check if your credentials were correct."
)

# -- streaming subscriptions -------------------------------------------------------------------------------------------

SUBSCRIPTION_NOT_FOUND: Final = ErrorEntry(
    404, "streaming.subscription.not.found", "No subscription with ID '{0}' exists."
)
SUBSCRIPTION_TIMEOUT: Final = ErrorEntry(
    408, "streaming.subscription.timeout", "The subscription '{0}' stopped due to a lack of interaction."
)
DEMAND_NOT_POSITIVE: Final = ErrorEntry(
    400,
    "streaming.subscription.protocol.error",
    "The number of requested elements must be > 0 (see reactive-streams specification, rule 3.9)",
)
SUBSCRIPTION_ENDED: Final = ErrorEntry(
    400,
    "streaming.subscription.protocol.error",
    "This subscription is considered cancelled. No more messages are processed.",
)


def _of_search(entry: ErrorEntry) -> ErrorEntry:
    return replace(entry, code=entry.code.replace("streaming.", "thing-search:"))


@dataclass(frozen=True, slots=True)
class SubscriptionErrors:
    """What can go wrong with a subscription: to a history, or to the results of a search."""

    not_found: ErrorEntry
    timeout: ErrorEntry
    not_positive: ErrorEntry
    ended: ErrorEntry


HISTORY_ERRORS: Final = SubscriptionErrors(
    SUBSCRIPTION_NOT_FOUND, SUBSCRIPTION_TIMEOUT, DEMAND_NOT_POSITIVE, SUBSCRIPTION_ENDED
)
SEARCH_ERRORS: Final = SubscriptionErrors(
    _of_search(SUBSCRIPTION_NOT_FOUND),
    _of_search(SUBSCRIPTION_TIMEOUT),
    _of_search(DEMAND_NOT_POSITIVE),
    _of_search(SUBSCRIPTION_ENDED),
)

# -- messages and acknowledgements -------------------------------------------------------------------------------------

MESSAGE_NOT_ALLOWED: Final = ErrorEntry(
    403,
    "messages:send.notallowed",
    "You are not allowed to send messages for the Thing with id '{0}'!",
    "Please make sure that the Thing exists and that you have WRITE permissions on the message resource in the policy"
    " of the Thing.",
)
MESSAGE_TOO_LARGE: Final = ErrorEntry(
    413,
    "messages:payload.toolarge",
    "The message payload size of '{0}' kB exceeds the maximal allowed size of '{1}' kB.",
    "Reduce the message payload in the bounds of the specified limit",
)
MESSAGE_SUBJECT_INVALID: Final = ErrorEntry(
    400,
    "messages:subject.invalid",
    "The message subject '{0}' is invalid.",
    "A subject has 1 to 256 characters, and neither spaces nor control characters.",
)
STATUS_INVALID: Final = ErrorEntry(400, "json.invalid", "The status {0} is not one of HTTP.", "Allowed: 100 to 599.")
ACK_LABEL_INVALID: Final = ErrorEntry(
    400,
    "acknowledgement:label.invalid",
    "Acknowledgement label <{0}> is invalid.",
    "An acknowledgement label must conform to the regular expression of Ditto documentation: [a-zA-Z0-9-_:]{3,165}",
)
ACK_NOT_DECLARED: Final = ErrorEntry(
    400,
    "acknowledgement:label.not.declared",
    "Cannot send acknowledgement with label <{0}>, which is not declared.",
    "Each connection may only send acknowledgements whose label matches one declared for the connection.",
)
ACK_NOT_UNIQUE: Final = ErrorEntry(
    409,
    "acknowledgement:label.not.unique",
    "One or more declared acknowledgement labels are taken by other subscribers.",
    "Please ensure all other subscribers with the declared acknowledgement labels are offline.",
)
ACK_TIMEOUT: Final = ErrorEntry(
    408,
    "acknowledgement:request.timeout",
    "The acknowledgement request reached the specified timeout of {0}ms.",
    "Try increasing the timeout and make sure that the requested acknowledgement is sent back in time.",
)
DUPLICATE_CORRELATION: Final = ErrorEntry(
    409,
    "acknowledgement:request.duplicate.correlation-id",
    "The correlation-id '{0}' is already used by a signal whose sender is waiting.",
    "Please ensure that each signal has another correlation-id.",
)

# -- search ------------------------------------------------------------------------------------------------------------

SEARCH_OPTION_INVALID: Final = ErrorEntry(
    400, "thing-search:search.option.invalid", "At least one provided option is invalid."
)
NAMESPACES_INVALID: Final = ErrorEntry(400, "thing-search:search.namespaces.invalid", "{0}")

# -- connections -------------------------------------------------------------------------------------------------------

CONNECTION_NOT_FOUND: Final = ErrorEntry(
    404,
    "connectivity:connection.notfound",
    "The Connection with ID '{0}' could not be found or requester had insufficient permissions to access it.",
    CHECK_ID.format("Connection"),
)
CONNECTION_REVISION_NOT_FOUND: Final = ErrorEntry(
    404,
    "connectivity:connection.history.notfound",
    "The Connection with ID '{0}' at revision '{1}' could not be found or requester had insufficient permissions to"
    " access it.",
    CHECK_HISTORY.format("Connection"),
)
CONNECTION_TIMESTAMP_NOT_FOUND: Final = ErrorEntry(
    404,
    "connectivity:connection.history.notfound",
    "The Connection with ID '{0}' at timestamp '{1}' could not be found or requester had insufficient permissions to"
    " access it.",
    CHECK_HISTORY.format("Connection"),
)


def wrong_type(value: str, pointer: str, expected: str) -> DittoError:
    """A JSON value is not of the type its place asks for; `value` is its text."""
    short = value if len(value) <= 60 else value[:60] + "…"
    return JSON_INVALID.of(f"Value <{short}> for <{pointer}> is not of type <{expected}>!")


def too_large(entry: ErrorEntry, size: int, limit: int) -> DittoError:
    """The error about a thing or a policy whose compact text has more bytes than allowed (413)."""
    return entry.of(_kilobytes(size), _kilobytes(limit))


def _kilobytes(size: int) -> str:
    """As upstream prints it: at most three digits after the point, without trailing zeros."""
    return f"{size / 1024:,.3f}".rstrip("0").rstrip(".")


def media_type_unsupported(given: str, allowed: str) -> DittoError:
    """A body of a type that this resource does not accept (415)."""
    return MEDIA_TYPE_UNSUPPORTED.of(given, description=f"Allowed Content-Types are: {allowed}")
