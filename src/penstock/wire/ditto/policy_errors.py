"""Errors about policies: the third part of the catalogue. Read first: `errors`."""

from __future__ import annotations

from typing import Final

from penstock.wire.ditto.errors import CHECK_HISTORY, CHECK_ID, ID_NOTATION, NOTHING_CHANGED, ErrorEntry
from penstock.wire.ditto.thing_errors import NOT_MODIFIED, PRECONDITION_FAILED

POLICY_ID_INVALID: Final = ErrorEntry(
    400,
    "policies:id.invalid",
    "Policy ID '{0}' is not valid!",
    "It must conform to the namespaced entity ID notation (see Ditto documentation)",
    ID_NOTATION,
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
    CHECK_ID.format("Policy"),
)
POLICY_CONFLICT: Final = ErrorEntry(
    409, "policies:policy.conflict", "The Policy with ID '{0}' already exists", "Choose another Policy ID"
)
POLICY_NOT_MODIFIABLE: Final = ErrorEntry(
    403,
    "policies:policy.notmodifiable",
    "The Policy with ID '{0}' could not be modified as the requester had insufficient permissions.",
    CHECK_ID.format("Policy"),
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
    CHECK_HISTORY.format("Policy"),
)
POLICY_TIMESTAMP_NOT_FOUND: Final = ErrorEntry(
    404,
    "policies:policy.history.notfound",
    "The Policy with ID '{0}' at timestamp '{1}' could not be found or requester had insufficient permissions to access"
    " it.",
    CHECK_HISTORY.format("Policy"),
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
POLICY_EQUAL: Final = ErrorEntry(412, "policies:precondition.failed", *NOTHING_CHANGED)
