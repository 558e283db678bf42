"""The values of things, policies and answers as JSON Schema: what `wire.ditto.resource` checks.

Fields that begin with an underscore are the server's own, such as `_revision`. None is required, because `fields` may
leave any of them out.
"""

from __future__ import annotations

from penstock.doors.ditto.openapi.operation import Schema, ref
from penstock.wire.ditto.ids import MAX_LENGTH
from penstock.wire.ditto.permission_check import MAX_CHECKS

_TEXT: Schema = {"type": "string"}
_KEY = r"^[^/\x00-\x1f\x7f-\x9f]+$"
_ID = r"^([a-zA-Z][a-zA-Z0-9_]*([.\-][a-zA-Z][a-zA-Z0-9_]*)*)?:[^/\x00-\x1f\x7f-\xff]+$"
_NAMESPACE = r"^(\*|[a-zA-Z][a-zA-Z0-9_]*([.\-][a-zA-Z][a-zA-Z0-9_]*)*(\.\*)?)$"
_RESOURCE = r"^(thing|policy|message):/"


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _words(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _closed(**properties: Schema) -> Schema:
    """An object with no other fields."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _own(**properties: Schema) -> Schema:
    """An object with no other fields but the server's own."""
    return {**_closed(**properties), "patternProperties": {"^_": {}}}


def _by(names: Schema, values: Schema) -> Schema:
    """An object whose keys clients choose."""
    return {"type": "object", "propertyNames": names, "additionalProperties": values}


_POLICY = {"entries": ref("Entries"), "imports": ref("Imports")}
_THING = {
    "policyId": ref("EntityId"),
    "definition": ref("Definition"),
    "attributes": ref("Properties"),
    "features": ref("Features"),
}
_PERMISSIONS = _list(_words("READ", "WRITE", "EXECUTE"))

SCHEMAS: dict[str, Schema] = {
    # -- texts ---------------------------------------------------------------------------------------------------------
    "EntityId": {"type": "string", "pattern": _ID, "maxLength": MAX_LENGTH, "examples": ["org.example:lamp"]},
    "Key": {"type": "string", "pattern": _KEY},
    "Label": {"type": "string", "pattern": _KEY, "not": {"pattern": "^(ns)?imported"}},
    "Timeout": {"type": "string", "pattern": "^[0-9]{1,9}(ms|s|m)?$", "examples": ["500ms", "10s", "1m"]},
    "DefinitionIdentifier": {
        "type": "string",
        "pattern": r"^([a-zA-Z0-9_.\-]+:[a-zA-Z0-9_.\-]+:[a-zA-Z0-9_.\-]+|[hH][tT][tT][pP][sS]?://.+)$",
        "examples": ["org.example:lamp:1.0.0"],
    },
    # -- things --------------------------------------------------------------------------------------------------------
    "Value": {"description": "Any JSON; keys of objects in it have no slashes and no control characters."},
    "Definition": _or_null(ref("DefinitionIdentifier")),
    "FeatureDefinition": _or_null({**_list(ref("DefinitionIdentifier")), "minItems": 1}),
    "Properties": _or_null(_by(ref("Key"), ref("Value"))),
    "Feature": _or_null(
        _own(
            definition=ref("FeatureDefinition"),
            properties=ref("Properties"),
            desiredProperties=ref("Properties"),
        )
    ),
    "Features": _or_null(_by(ref("Key"), ref("Feature"))),
    "Thing": _own(thingId=ref("EntityId"), **_THING),
    "NewThing": _own(**_THING),
    "Things": _list(ref("Thing")),
    "ObjectPatch": {"type": ["object", "null"], "description": "A merge patch (RFC 7396): null deletes."},
    "ThingPatch": {"type": "object", "description": "A merge patch (RFC 7396): null deletes."},
    "ThingDescription": {"type": "object", "description": "A Thing Description of the Web of Things."},
    "Events": {"type": "string", "description": "Server-sent events; the data of each is the part that changed."},
    "Migration": {
        **_closed(
            thingId=_TEXT,
            thingDefinitionUrl=ref("DefinitionIdentifier"),
            migrationPayload=_closed(attributes={}, features={}),
            patchConditions={"type": "object", "additionalProperties": _TEXT},
            initializeMissingPropertiesFromDefaults={"type": "boolean"},
        ),
        "required": ["thingDefinitionUrl"],
    },
    "Migrated": {"type": "object", "description": "What was changed, or would be."},
    # -- policies ------------------------------------------------------------------------------------------------------
    "Policy": _own(policyId=ref("EntityId"), **_POLICY),
    "NewPolicy": _own(**_POLICY),
    "Entries": _by(ref("Label"), ref("Entry")),
    # Those of a resolved policy have labels that clients cannot give.
    "ResolvedEntries": {"type": "object", "additionalProperties": ref("Entry")},
    "ResolvedPolicy": _own(policyId=ref("EntityId"), entries=ref("ResolvedEntries"), imports=ref("Imports")),
    "Entry": _closed(
        subjects=ref("Subjects"),
        resources=ref("Resources"),
        importable=ref("Importable"),
        allowedAdditions=ref("AllowedAdditions"),
        namespaces=ref("Namespaces"),
        references=ref("References"),
    ),
    "Subjects": {"type": "object", "additionalProperties": ref("Subject")},
    "Subject": {
        "type": "object",
        "properties": {
            "type": _or_null(_TEXT),
            "expiry": _or_null(_TEXT),
            "announcement": _or_null(
                _closed(
                    beforeExpiry=_TEXT, whenDeleted={"type": "boolean"}, requestedAcks={}, randomizationInterval=_TEXT
                )
            ),
        },
    },
    "Resources": _by({"type": "string", "pattern": _RESOURCE}, ref("Resource")),
    "Resource": {"type": "object", "properties": {"grant": _PERMISSIONS, "revoke": _PERMISSIONS}},
    "Importable": _words("implicit", "explicit", "never"),
    "AllowedAdditions": _list(_words("subjects", "resources", "namespaces")),
    "Namespaces": _list({"type": "string", "pattern": _NAMESPACE}),
    "References": _list({**_closed(entry=_TEXT, **{"import": ref("EntityId")}), "required": ["entry"]}),
    "Imports": _by(ref("EntityId"), ref("Import")),
    "Import": _closed(entries=ref("Labels"), transitiveImports=ref("PolicyIds")),
    "Labels": _list(_TEXT),
    "PolicyIds": _list(ref("EntityId")),
    # -- everything else -----------------------------------------------------------------------------------------------
    "Found": {
        "type": "object",
        "properties": {"items": ref("Things"), "cursor": _TEXT},
        "required": ["items"],
    },
    "Search": {
        "type": "object",
        "properties": {"filter": _TEXT, "option": _TEXT, "fields": _TEXT, "namespaces": _TEXT},
    },
    "Count": {"type": "integer", "minimum": 0},
    "Caller": {
        **_closed(defaultSubject=_TEXT, subjects=_list(_TEXT)),
        "required": ["defaultSubject", "subjects"],
    },
    "PermissionChecks": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_CHECKS,
        "additionalProperties": {
            "type": "object",
            "properties": {
                "resource": {"type": "string", "pattern": "^(thing|policy|message):"},
                "entityId": ref("EntityId"),
                "hasPermissions": {**_PERMISSIONS, "minItems": 1},
            },
            "required": ["resource", "entityId", "hasPermissions"],
        },
    },
    "Permissions": {"type": "object", "additionalProperties": {"type": "boolean"}},
    "Acknowledgements": {
        "type": "object",
        "description": "What has come for each label.",
        "additionalProperties": {
            "type": "object",
            "properties": {"status": {"type": "integer"}, "payload": {}, "headers": {"type": "object"}},
            "required": ["status", "headers"],
        },
    },
    "Error": {
        **_closed(
            status={"type": "integer"},
            error=_TEXT,
            message=_TEXT,
            description=_TEXT,
            href=_TEXT,
            validationDetails={"type": "object", "additionalProperties": _list(_TEXT)},
        ),
        "required": ["status", "error", "message"],
    },
}
