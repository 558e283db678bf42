"""The catalogue of Ditto's errors: code, status and texts, and the exception that carries one to the door.

A client should look at the status; codes and texts are as upstream has them today. When each is sent: docs/ditto.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

# How many characters of what a client sent an error text quotes.
MAX_ECHO = 256

_NOTATION = "https://www.eclipse.dev/ditto/basic-namespaces-and-names.html#namespaced-id"
_CHECK = "Check if the ID of your requested {} was correct and you have sufficient permissions."
_WRITE = "had insufficient permissions ('WRITE' is required)."
_HISTORY = (
    "Check if the ID of your requested {} was correct, you have sufficient permissions and ensure that the asked for"
    " revision/timestamp does not exceed the history-retention-duration or is from the future."
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
    "There is nothing at '{0}'.",
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

# -- things ------------------------------------------------------------------------------------------------------------

THING_ID_INVALID: Final = ErrorEntry(
    400,
    "things:id.invalid",
    "Thing ID '{0}' is not valid!",
    "It must conform to the namespaced entity ID notation (see Ditto documentation)",
    _NOTATION,
)
THING_ID_IN_POST: Final = ErrorEntry(
    400,
    "things:id.notsettable",
    "It is not allowed to provide a Thing ID in the request body for method POST. The method POST will generate the"
    " Thing ID by itself.",
    "To provide your own Thing ID use a PUT request instead.",
)
THING_ID_IN_PUT: Final = ErrorEntry(
    400,
    "things:id.notsettable",
    "The Thing ID in the request body is not equal to the Thing ID in the request URL.",
    "Either delete the Thing ID from the request body or use the same Thing ID as in the request URL.",
)
THING_ID_IN_MESSAGE: Final = ErrorEntry(
    400,
    "things:id.notsettable",
    "The Thing ID in the thing JSON is not equal to the Thing ID in the topic path.",
    "Either delete the Thing ID from the thing JSON or use the same Thing ID as in the topic path.",
)
MODEL_NOT_ACCESSIBLE: Final = ErrorEntry(
    421,
    "wot:tm.notfound",
    "The WoT ThingModel at URI '{0}' could not be accessed.",
    "Please ensure that the linked ThingModel is publicly available in order to be downloaded.",
)
MODEL_INVALID: Final = ErrorEntry(
    400,
    "wot:tm.invalid",
    "The WoT ThingModel at URI '{0}' was not valid.",
    "Please ensure that the linked ThingModel is valid regarding to the WoT (Web of Things) specification.",
)
MODEL_PLACEHOLDER: Final = ErrorEntry(
    400,
    "wot:tm.placeholder.unresolved",
    "The WoT ThingModel contained placeholder '{0}' which could not be resolved during TD generation.",
    "Please ensure that all used placeholders from the ThingModel are provided, e.g. via the 'model-placeholders'"
    " object in the Thing/Feature.",
)
PLACEHOLDER_UNRESOLVED: Final = ErrorEntry(
    400,
    "placeholder:unresolved",
    "The placeholder '{0}' could not be resolved.",
    "Some placeholders could not be resolved. Check the spelling of the placeholder and make sure all required values"
    " are there.",
)
_PAYLOAD_INVALID: Final = ErrorEntry(
    400,
    "wot:payload.validation.error",
    "The provided payload did not conform to the specified WoT (Web of Things) model.",
)
DEFINITION_INVALID: Final = ErrorEntry(
    400,
    "things:definition.identifier.invalid",
    "Definition identifier <{0}> is invalid!",
    "An identifier string is expected to have the structure 'namespace:name:version' where each segment must contain at"
    " least one char of [_a-zA-Z0-9\\-.] OR it must be a valid HTTP(s) URL.",
)
THING_NOT_FOUND: Final = ErrorEntry(
    404,
    "things:thing.notfound",
    "The Thing with ID '{0}' could not be found or requester had insufficient permissions to access it.",
    _CHECK.format("Thing"),
)
THING_CONFLICT: Final = ErrorEntry(
    409, "things:thing.conflict", "The Thing with ID '{0}' already exists", "Choose another Thing ID"
)
THING_NOT_MODIFIABLE: Final = ErrorEntry(
    403,
    "things:thing.notmodifiable",
    f"The Thing with ID '{{0}}' could not be modified as the requester {_WRITE}",
    _CHECK.format("Thing"),
)
THING_NOT_DELETABLE: Final = ErrorEntry(
    403,
    "things:thing.notdeletable",
    "The Thing with ID '{0}' could not be deleted as the requester had insufficient permissions"
    " ( 'WRITE' on root resource is required).",
    _CHECK.format("Thing"),
)
THING_NOT_CREATABLE: Final = ErrorEntry(
    400,
    "things:thing.notcreatable",
    "The Thing with ID '{0}' could not be created as the Policy with ID '{1}' is not existing.",
    "Check if the ID of the Policy you created the Thing with is correct and that the Policy is existing.",
)
THING_TOO_LARGE: Final = ErrorEntry(
    413,
    "things:thing.toolarge",
    "The size of '{0}' kB exceeds the maximal allowed Thing size of '{1}' kB.",
    "Reduce the Thing size in the bounds of the specified limit",
)
THING_REVISION_NOT_FOUND: Final = ErrorEntry(
    404,
    "things:thing.history.notfound",
    "The Thing with ID '{0}' at revision '{1}' could not be found or requester had insufficient permissions to access"
    " it.",
    _HISTORY.format("Thing"),
)
THING_TIMESTAMP_NOT_FOUND: Final = ErrorEntry(
    404,
    "things:thing.history.notfound",
    "The Thing with ID '{0}' at timestamp '{1}' could not be found or requester had insufficient permissions to access"
    " it.",
    _HISTORY.format("Thing"),
)
THING_POLICY_EXISTS: Final = ErrorEntry(
    400,
    "things:thing.notcreatable",
    "The Thing with ID '{0}' could not be created because creation of its implicit Policy ID '{1}' failed.",
    "If you want to use an existing Policy, specify it as 'policyId' in the Thing JSON you create.",
)
THING_RESERVED: Final = ErrorEntry(
    400,
    "things:thing.notcreatable",
    "The Thing with ID '{0}' could not be created as its namespace is the one of a data adapter.",
    "The items of a data adapter are Things already. Choose another namespace.",
)
THING_UNAVAILABLE: Final = ErrorEntry(
    503,
    "things:thing.unavailable",
    "The Thing with ID '{0}' is not available, please try again later.",
    "The requested Thing is temporarily not available, please retry the performed action in order to improve"
    " resiliency.",
)
CONDITION_FAILED: Final = ErrorEntry(
    412,
    "things:condition.failed",
    "The specified condition does not match the state of the requested Thing.",
    "The provided condition did not match the actual Thing state. Please check your provided condition.",
)
CONDITION_NOT_READABLE: Final = ErrorEntry(
    412,
    "things:condition.failed",
    "The specified resource in the condition could not be found or the requester had insufficient permissions to"
    " access it.",
    "Check if you have sufficient permissions to access the specified resource (READ permission is required).",
)
MERGE_INVALID: Final = ErrorEntry(
    400,
    "things:merge.invalid",
    "The provided JSON Merge Patch is invalid, it must conform to RFC7396.",
    "The provided JSON Merge Patch cannot be applied at the given path.",
)
INLINE_POLICY_NOT_ALLOWED: Final = ErrorEntry(
    400,
    "things:policy.id.notallowed",
    "The Thing with ID '{0}' could not be modified as it contained an inline Policy for a Thing that exists, or a"
    " Policy ID that is not the one of its inline Policy",
    "If you want to use an existing Policy, specify it as 'policyId' in the Thing JSON. If you want to create a Thing"
    " with inline Policy, it is created with the ID in '_policy/policyId', or with the Thing ID if there is none.",
)
PRECONDITION_FAILED: Final = ErrorEntry(
    412,
    "things:precondition.failed",
    "The comparison of precondition header '{0}' for the requested Thing resource evaluated to false."
    " Header value: '{1}', actual entity-tag: '{2}'.",
    "The comparison of the provided precondition header with the current ETag value of the requested Thing resource"
    " evaluated to false. Check the value of your conditional header value.",
)
NOT_MODIFIED: Final = ErrorEntry(
    304,
    "things:precondition.notmodified",
    "The comparison of precondition header 'if-none-match' for the requested Thing resource evaluated to false."
    " Expected: '{0}' not to match actual: '{1}'.",
    "The comparison of the provided precondition header 'if-none-match' with the current ETag value of the requested"
    " Thing resource evaluated to false. Check the value of your conditional header value.",
)

_EQUAL: Final = (
    "The previous value was equal to the new value and the 'if-equal' header was set to 'skip'.",
    "Your changes were not applied, which is probably the expected outcome.",
)
THING_EQUAL: Final = ErrorEntry(412, "things:precondition.failed", *_EQUAL)

# -- parts of a thing: what is missing or may not be read, and what may not be written ---------------------------------


def _missing(part: str, text: str) -> ErrorEntry:
    return ErrorEntry(
        404,
        f"things:{part}.notfound",
        text + " could not be found or the requester had insufficient permissions to access it.",
        "Check if the ID of the Thing and the name of your requested part were correct and you have sufficient"
        " permissions.",
    )


def _unwritable(part: str, text: str) -> ErrorEntry:
    return ErrorEntry(
        403,
        f"things:{part}.notmodifiable",
        f"{text} could not be modified as the requester {_WRITE}",
        "Check if the ID of the Thing and the name of your requested part were correct and you have sufficient"
        " permissions.",
    )


# The arguments of a text are the thing's ID, the feature's ID and the pointer below, in this order.
_PARTS: Final = {
    "attributes": "The Attributes of the Thing with ID '{0}'",
    "attribute": "The attribute with key '{2}' on the thing with ID '{0}'",
    "definition": "The Definition of the Thing with ID '{0}'",
    "features": "The Features on the Thing with ID '{0}'",
    "feature": "The Feature with ID '{1}' on the Thing with ID '{0}'",
    "feature.definition": "The Definition of the Feature with ID '{1}' on the Thing with ID '{0}'",
    "feature.properties": "The Properties of the Feature with ID '{1}' on the Thing with ID '{0}'",
    "feature.property": "The Property with JSON Pointer '{2}' of the Feature with ID '{1}' on the Thing with ID '{0}'",
    "feature.desiredProperties": "The desired properties of the Feature with ID '{1}' on the Thing with ID '{0}'",
    "feature.desiredProperty": "The desired property with JSON Pointer '{2}' of the Feature with ID '{1}' on the Thing"
    " with ID '{0}'",
}
PART_NOT_FOUND: Final = {part: _missing(part, text) for part, text in _PARTS.items()}
PART_NOT_MODIFIABLE: Final = {part: _unwritable(part, text) for part, text in _PARTS.items()}

# -- policies and connections ------------------------------------------------------------------------------------------

POLICY_ID_INVALID: Final = ErrorEntry(
    400,
    "policies:id.invalid",
    "Policy ID '{0}' is not valid!",
    "It must conform to the namespaced entity ID notation (see Ditto documentation)",
    _NOTATION,
)
POLICY_ID_IN_MESSAGE: Final = ErrorEntry(
    400,
    "policies:id.notsettable",
    "The Policy ID in the policy JSON is not equal to the Policy ID in the topic path.",
    "Either delete the Policy ID from the policy JSON or use the same Policy ID as in the topic path.",
)
POLICY_NOT_FOUND: Final = ErrorEntry(
    404,
    "policies:policy.notfound",
    "The Policy with ID '{0}' could not be found or requester had insufficient permissions to access it.",
    _CHECK.format("Policy"),
)
POLICY_CONFLICT: Final = ErrorEntry(
    409, "policies:policy.conflict", "The Policy with ID '{0}' already exists", "Choose another Policy ID"
)
POLICY_NOT_MODIFIABLE: Final = ErrorEntry(
    403,
    "policies:policy.notmodifiable",
    "The Policy with ID '{0}' could not be modified as the requester had insufficient permissions.",
    _CHECK.format("Policy"),
)
POLICY_TOO_LARGE: Final = ErrorEntry(
    413,
    "policies:policy.toolarge",
    "The size of '{0}' kB exceeds the maximal allowed Policy size of '{1}' kB.",
    "Reduce the Policy size in the bounds of the specified limit",
)
POLICY_REVISION_NOT_FOUND: Final = ErrorEntry(
    404,
    "policies:policy.history.notfound",
    "The Policy with ID '{0}' at revision '{1}' could not be found or requester had insufficient permissions to access"
    " it.",
    _HISTORY.format("Policy"),
)
POLICY_TIMESTAMP_NOT_FOUND: Final = ErrorEntry(
    404,
    "policies:policy.history.notfound",
    "The Policy with ID '{0}' at timestamp '{1}' could not be found or requester had insufficient permissions to access"
    " it.",
    _HISTORY.format("Policy"),
)
POLICY_ENTRY_INVALID: Final = ErrorEntry(
    403,
    "policies:entry.modificationinvalid",
    "The PolicyEntry with Label '{0}' on the Policy with ID '{1}' could not be modified as the resulting Policy would"
    " be invalid.",
    "There must always be at least one PolicyEntry with 'WRITE' permissions on resource 'policy:/', for a subject that"
    " does not expire.",
)
POLICY_ENTRY_NOT_FOUND: Final = ErrorEntry(
    404,
    "policies:entry.notfound",
    "The PolicyEntry with Label '{0}' on the Policy with ID '{1}' could not be found or requester had insufficient"
    " permissions to access it.",
    "Check if the ID of the Policy and the Label of your requested PolicyEntry was correct and you have sufficient"
    " permissions.",
)
LABEL_INVALID: Final = ErrorEntry(
    400,
    "policies:label.invalid",
    "Label '{0}' is not valid!",
    "It must not start with 'imported' or 'nsimported'.",
)
IMPORT_OF_ITSELF: Final = ErrorEntry(
    400,
    "policies:import.invalid",
    "The Policy Import is invalid.",
    "The Policy Import references the policy where it is defined.",
)
IMPORT_LOOP: Final = ErrorEntry(
    400,
    "policies:import.invalid",
    "The imports of the Policy with ID '{0}' lead back to it: {1}.",
    "Remove one of these policies from the 'transitiveImports' of an import.",
)
IMPORTS_TOO_MANY: Final = ErrorEntry(
    400,
    "policies:imports.toolarge",
    "The Imports of the Policy with ID '{0}' could not be modified as they exceed the allowed number of '{1}'.",
    "Import fewer policies.",
)
IMPORT_NOT_FOUND: Final = ErrorEntry(
    404,
    "policies:import.notfound",
    "The import of the Policy with ID '{0}' in the Policy with ID '{1}' could not be found or requester had"
    " insufficient permissions to access it.",
    "Check if both IDs were correct and you have sufficient permissions.",
)
REFERENCE_INVALID: Final = ErrorEntry(
    400,
    "policies:entry.invalid",
    "The reference of the PolicyEntry with Label '{0}' to '{1}' is invalid.",
)
ENTRY_REFERENCED: Final = ErrorEntry(
    409,
    "policies:entry.referenceconflict",
    "The entry '{0}' of Policy '{1}' cannot be removed because a local reference from entry '{2}' still points to it.",
    "Remove the local entry references first before deleting the referenced entry.",
)
IMPORT_REFERENCED: Final = ErrorEntry(
    409,
    "policies:import.referenceconflict",
    "The import '{0}' of Policy '{1}' cannot be removed because a reference from entry '{2}' still points to it.",
    "Remove the references to the import first.",
)
PLACEHOLDER_UNKNOWN: Final = ErrorEntry(
    400,
    "placeholder:placeholder.notresolvable",
    "The placeholder '{0}' is unknown.",
    "Please use one of the supported placeholders: 'request:subjectId'.",
)
SUBJECT_EXPIRY_INVALID: Final = ErrorEntry(
    400,
    "policies:subjectexpiry.invalid",
    "Subject expiry timestamp '{0}' is not valid.",
    "It must be provided as ISO-8601 formatted char sequence.",
)
SUBJECT_ANNOUNCEMENT_INVALID: Final = ErrorEntry(
    400,
    "policies:subjectannouncement.invalid",
    "The '{0}' of an announcement, '{1}', is not valid.",
)
POLICY_VIEW_INVALID: Final = ErrorEntry(
    400,
    "policies:view.invalid",
    "The 'policy-view' parameter has an invalid value: '{0}'. Valid values: 'original', 'resolved'.",
    "Use 'original' (or omit) for the stored policy, or 'resolved' for the merged view.",
)
ACTION_NEEDS_TOKEN: Final = ErrorEntry(
    400,
    "policies:action.failed",
    "Failed to execute action '{0}'.",
    "Policy action is only possible with JWT authentication.",
)
ACTION_NOT_APPLICABLE: Final = ErrorEntry(
    404,
    "policies:action.failed",
    "Failed to execute action '{0}'.",
    "No policy entry found for which the action could be applied: it must have a subject of the token, grant EXECUTE"
    " on the action and, for an activation, READ on a thing.",
)
POLICY_INVALID: Final = ErrorEntry(
    403,
    "policies:policy.modificationinvalid",
    "The Policy with ID '{0}' could not be modified as the resulting Policy would be invalid.",
    "There must always be at least one PolicyEntry with 'WRITE' permissions on resource 'policy:/', for a subject that"
    " does not expire.",
)
SUBJECT_NOT_FOUND: Final = ErrorEntry(
    404,
    "policies:subject.notfound",
    "The Subject with ID '{0}' of the PolicyEntry with Label '{1}' on the Policy with ID '{2}' could not be found or"
    " requester had insufficient permissions to access it.",
    "Check if the ID of the Policy, the Label of the PolicyEntry and ID of your requested Subject was correct and you"
    " have sufficient permissions.",
)
RESOURCE_NOT_FOUND: Final = ErrorEntry(
    404,
    "policies:resource.notfound",
    "The Resource '{0}' of the PolicyEntry with Label '{1}' on the Policy with ID '{2}' could not be found or requester"
    " had insufficient permissions to access it.",
    "Check if the ID of the Policy, the Label of the PolicyEntry and the path of your requested Resource was correct"
    " and you have sufficient permissions.",
)
POLICY_UNAVAILABLE: Final = ErrorEntry(
    503,
    "policies:policy.unavailable",
    "The Policy with ID '{0}' is not available, please try again later.",
    "The requested Policy is temporarily not available, please retry the performed action in order to improve"
    " resiliency.",
)
POLICY_PRECONDITION_FAILED: Final = ErrorEntry(
    412,
    "policies:precondition.failed",
    PRECONDITION_FAILED.message.replace("Thing", "Policy"),
    "The comparison of the provided precondition header with the current ETag value of the requested Policy resource"
    " evaluated to false. Check the value of your conditional header value.",
)
POLICY_NOT_MODIFIED: Final = ErrorEntry(
    304,
    "policies:precondition.notmodified",
    NOT_MODIFIED.message.replace("Thing", "Policy"),
    "The comparison of the provided precondition header 'if-none-match' with the current ETag value of the requested"
    " Policy resource evaluated to false. Check the value of your conditional header value.",
)
POLICY_EQUAL: Final = ErrorEntry(412, "policies:precondition.failed", *_EQUAL)
CONNECTION_NOT_FOUND: Final = ErrorEntry(
    404,
    "connectivity:connection.notfound",
    "The Connection with ID '{0}' could not be found or requester had insufficient permissions to access it.",
    _CHECK.format("Connection"),
)
CONNECTION_REVISION_NOT_FOUND: Final = ErrorEntry(
    404,
    "connectivity:connection.history.notfound",
    "The Connection with ID '{0}' at revision '{1}' could not be found or requester had insufficient permissions to"
    " access it.",
    _HISTORY.format("Connection"),
)
CONNECTION_TIMESTAMP_NOT_FOUND: Final = ErrorEntry(
    404,
    "connectivity:connection.history.notfound",
    "The Connection with ID '{0}' at timestamp '{1}' could not be found or requester had insufficient permissions to"
    " access it.",
    _HISTORY.format("Connection"),
)


def wrong_type(value: str, pointer: str, expected: str) -> DittoError:
    """A JSON value is not of the type its place asks for; `value` is its text."""
    short = value if len(value) <= 60 else value[:60] + "…"
    return JSON_INVALID.of(f"Value <{short}> for <{pointer}> is not of type <{expected}>!")


def too_large(size: int, limit: int, is_policy: bool = False) -> DittoError:
    """A thing or a policy whose compact text has more bytes than allowed (413)."""
    entry: ErrorEntry = POLICY_TOO_LARGE if is_policy else THING_TOO_LARGE
    return entry.of(_kilobytes(size), _kilobytes(limit))


def payload_invalid(text: str, details: dict[str, list[str]]) -> DittoError:
    error = _PAYLOAD_INVALID.of(description=text)
    error.details = details
    return error


def _kilobytes(size: int) -> str:
    """As upstream prints it: at most three digits after the point, without trailing zeros."""
    return f"{size / 1024:,.3f}".rstrip("0").rstrip(".")


def media_type_unsupported(given: str, allowed: str) -> DittoError:
    """A body of a type that this resource does not accept (415)."""
    return MEDIA_TYPE_UNSUPPORTED.of(given, description=f"Allowed Content-Types are: {allowed}")
