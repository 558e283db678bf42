"""The parameters of the HTTP API, by name: those in paths, and those in the query or in headers.

Most of the latter may be in either place (`http_request.HEADERS`); the document has the usual one.
"""

from __future__ import annotations

from typing import Any

from penstock.doors.ditto.openapi.operation import Schema, ref

_TEXT: Schema = {"type": "string"}
_TRUTH: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "integer"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_KEYS: Schema = {"type": "string", "minLength": 1}

# Name, schema, what it is.
IN_PATHS: tuple[tuple[str, Schema, str], ...] = (
    ("thing_id", ref("EntityId"), "The thing."),
    ("feature_id", ref("Key"), "The feature."),
    ("path", _KEYS, "Keys with slashes between them, which are not escaped."),
    ("subject", _KEYS, "The subject of the message; it may have slashes."),
    ("policy_id", ref("EntityId"), "The policy."),
    ("label", ref("Key"), "The entry of the policy."),
    ("subject_id", _KEYS, "The subject, such as nginx:ditto."),
    ("resource", _KEYS, "The resource, such as thing:/attributes; slashes may be escaped or not."),
    ("import_id", ref("EntityId"), "The imported policy."),
)

# Name, place, schema, what it is.
OTHERS: tuple[tuple[str, str, Schema, str], ...] = (
    ("correlation-id", "header", _TEXT, "Returned with the answer; made up if it is missing."),
    ("fields", "query", _TEXT, "What is returned, as in attributes(a,b),_revision."),
    ("ids", "query", _TEXT, "IDs of things, separated by commas. Required, except for a stream of events."),
    ("namespaces", "query", _TEXT, "Separated by commas; all by default."),
    ("namespace", "query", _TEXT, "Of the generated ID; by default that of the configuration."),
    ("filter", "query", _TEXT, "RQL, as in gt(attributes/watts,5)."),
    ("event-filter", "query", _TEXT, "RQL about events, for a stream of events."),
    ("option", "query", _TEXT, "As in sort(-attributes/watts),size(10)."),
    ("condition", "query", _TEXT, "RQL about the thing as it is before the request."),
    ("if-match", "header", _TEXT, "Tags, one of which must be the current one."),
    ("if-none-match", "header", _TEXT, "Tags, none of which may be the current one."),
    (
        "if-equal",
        "header",
        {"type": "string", "enum": ["update", "skip", "skip-minimizing-merge"]},
        "What becomes of a change that changes nothing.",
    ),
    ("timeout", "query", ref("Timeout"), "How long to wait, at most a minute."),
    ("response-required", "query", _TRUTH, "If false, the answer is 202, and nobody is told the outcome."),
    ("requested-acks", "query", _TEXT, "Labels of acknowledgements to wait for, separated by commas."),
    (
        "channel",
        "query",
        {"type": "string", "enum": ["twin", "live"]},
        "With `live` the thing itself is asked, and its answer is passed on with its status.",
    ),
    ("at-historical-revision", "query", _NUMBER, "The state at this revision."),
    ("at-historical-timestamp", "query", _TIME, "The state before this time."),
    ("from-historical-revision", "query", _TEXT, "First revision of a stream of past events; negative: from the end."),
    ("to-historical-revision", "query", _TEXT, "Last revision of a stream of past events."),
    ("from-historical-timestamp", "query", _TEXT, "Only past events after this time."),
    ("to-historical-timestamp", "query", _TEXT, "Only past events before this time."),
    ("get-metadata", "header", _TEXT, "Paths of metadata, which is returned in the header ditto-metadata."),
    ("put-metadata", "header", _TEXT, 'A JSON array of {"key":"PATH","value":…}.'),
    ("delete-metadata", "header", _TEXT, "Paths of metadata, separated by commas."),
    ("merge-thing-patch-conditions", "header", _TEXT, "A JSON object of paths in the patch and RQL."),
    ("dry-run", "query", _TRUTH, "Whether it is only tried."),
    (
        "policy-view",
        "query",
        {"type": "string", "enum": ["original", "resolved"]},
        "Whether all entries in force are returned, those of imports too.",
    ),
)

HISTORY = (
    "from-historical-revision",
    "to-historical-revision",
    "from-historical-timestamp",
    "to-historical-timestamp",
)
MOMENT = ("at-historical-revision", "at-historical-timestamp")
TAGS = ("if-match", "if-none-match")
ANSWER = ("correlation-id", "timeout", "response-required")


def parameters() -> dict[str, Any]:
    """All of them as components of the document."""
    found: dict[str, Any] = {
        name: {"name": name, "in": "path", "required": True, "schema": schema, "description": about}
        for name, schema, about in IN_PATHS
    }
    for name, place, schema, about in OTHERS:
        called = name.removeprefix("event-")
        found[name] = {"name": called, "in": place, "required": False, "schema": schema, "description": about}
    return found
