"""Errors about things: the second part of the catalogue. Read first: `errors`."""

from __future__ import annotations

from typing import Final

from penstock.wire.ditto.errors import CHECK_HISTORY, CHECK_ID, ID_NOTATION, NOTHING_CHANGED, DittoError, ErrorEntry

_WRITE = "had insufficient permissions ('WRITE' is required)."

THING_ID_INVALID: Final = ErrorEntry(
    400,
    "things:id.invalid",
    "Thing ID '{0}' is not valid!",
    "It must conform to the namespaced entity ID notation (see Ditto documentation)",
    ID_NOTATION,
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
    CHECK_ID.format("Thing"),
)
THING_CONFLICT: Final = ErrorEntry(
    409, "things:thing.conflict", "The Thing with ID '{0}' already exists", "Choose another Thing ID"
)
THING_NOT_MODIFIABLE: Final = ErrorEntry(
    403,
    "things:thing.notmodifiable",
    f"The Thing with ID '{{0}}' could not be modified as the requester {_WRITE}",
    CHECK_ID.format("Thing"),
)
THING_NOT_DELETABLE: Final = ErrorEntry(
    403,
    "things:thing.notdeletable",
    "The Thing with ID '{0}' could not be deleted as the requester had insufficient permissions"
    " ( 'WRITE' on root resource is required).",
    CHECK_ID.format("Thing"),
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
    CHECK_HISTORY.format("Thing"),
)
THING_TIMESTAMP_NOT_FOUND: Final = ErrorEntry(
    404,
    "things:thing.history.notfound",
    "The Thing with ID '{0}' at timestamp '{1}' could not be found or requester had insufficient permissions to access"
    " it.",
    CHECK_HISTORY.format("Thing"),
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

THING_EQUAL: Final = ErrorEntry(412, "things:precondition.failed", *NOTHING_CHANGED)

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


def payload_invalid(text: str, details: dict[str, list[str]]) -> DittoError:
    error = _PAYLOAD_INVALID.of(description=text)
    error.details = details
    return error
