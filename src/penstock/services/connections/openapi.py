"""What the OpenAPI document of the Ditto door says of connections: a table, and schemas of their documents."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.connections.document import ConnectionDocument
from penstock.doors.ditto.openapi.operation import NOTHING, DittoOperation, Schema, json_of, ref

_PATH = "/connections"
_ONE = f"{_PATH}/{{connection_id}}"
_TAG = "Connections"

_READ = (401, 403, 404, 429)
_CHANGE = (400, 401, 403, 404, 413, 429)

OPERATIONS = (
    DittoOperation(
        "get",
        _PATH,
        "List all connections, without their secrets",
        {200: json_of({"anyOf": [ref("Connections"), ref("ConnectionIds")]})},
        _READ,
        parameters=("ids-only",),
        tag=_TAG,
    ),
    DittoOperation(
        "post",
        _PATH,
        "Create a connection; with dry-run=true only try whether it can be made (200)",
        {200: NOTHING, 201: json_of(ref("ConnectionDocument"))},
        (*_CHANGE, 409, 504),
        json_of(ref("ConnectionDocument")),
        parameters=("only-tried",),
        tag=_TAG,
    ),
    DittoOperation(
        "get",
        _ONE,
        "Read a connection, without its secrets",
        {200: json_of(ref("ConnectionDocument"))},
        _READ,
        tag=_TAG,
    ),
    DittoOperation(
        "put",
        _ONE,
        "Create or replace a connection",
        {201: json_of(ref("ConnectionDocument")), 204: NOTHING},
        _CHANGE,
        json_of(ref("ConnectionDocument")),
        tag=_TAG,
    ),
    DittoOperation("delete", _ONE, "Close and delete a connection", {204: NOTHING}, _READ, tag=_TAG),
    DittoOperation(
        "post",
        f"{_ONE}/command",
        "Open or close a connection, reset its counters or its log",
        {200: NOTHING},
        _CHANGE,
        {"text/plain": {"type": "string", "examples": ["connectivity.commands:openConnection"]}},
        tag=_TAG,
    ),
    DittoOperation(
        "get",
        f"{_ONE}/status",
        "Read whether a connection is open, and why not",
        {200: json_of(ref("ConnectionStatus"))},
        _READ,
        tag=_TAG,
    ),
    DittoOperation(
        "get",
        f"{_ONE}/metrics",
        "Read what a connection has counted",
        {200: json_of(ref("ConnectionMetrics"))},
        _READ,
        tag=_TAG,
    ),
    DittoOperation(
        "get",
        f"{_ONE}/logs",
        "Read the last entries of a connection's log",
        {200: json_of(ref("ConnectionLogs"))},
        _READ,
        tag=_TAG,
    ),
)

PARAMETERS: dict[str, Any] = {
    "connection_id": {"name": "connection_id", "in": "path", "required": True, "schema": {"type": "string"}},
    "ids-only": {"name": "ids-only", "in": "query", "schema": {"type": "string"}, "description": "Only IDs, if true."},
    "only-tried": {"name": "dry-run", "in": "query", "schema": {"type": "string"}, "description": "Only try, if true."},
}


def _object(*required: str) -> Schema:
    return {"type": "object", "properties": {name: {} for name in required}, "required": list(required)}


def schemas() -> dict[str, Schema]:
    _, components = msgspec.json.schema_components([ConnectionDocument], ref_template="#/components/schemas/{name}")
    return {
        **components,
        "Connections": {"type": "array", "items": ref("ConnectionDocument")},
        "ConnectionIds": {"type": "array", "items": {"type": "string"}},
        "ConnectionStatus": _object("connectionId", "connectionStatus", "liveStatus", "since"),
        "ConnectionMetrics": _object("connectionId", "containsFailures", "connectionMetrics"),
        "ConnectionLogs": _object("connectionId", "connectionLogs"),
    }
