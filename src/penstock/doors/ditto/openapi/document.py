"""The whole OpenAPI document: the operations of this door, and those of others below the same root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock import __version__
from penstock.doors.ditto.http_request import ROOT
from penstock.doors.ditto.openapi import policies, questions, things
from penstock.doors.ditto.openapi.operation import REFUSALS, DittoOperation, Schema, json_of, ref
from penstock.doors.ditto.openapi.parameters import parameters
from penstock.doors.ditto.openapi.schemas import SCHEMAS
from penstock.doors.ditto.routes import DittoRoute

# Where it is served, below the root.
PLACE = "/openapi.json"

OPERATIONS = (*things.OPERATIONS, *policies.OPERATIONS, *questions.OPERATIONS)


@dataclass(frozen=True, slots=True)
class MoreRoutes:
    """Routes of others below the same root, and what the document says of them."""

    routes: tuple[DittoRoute, ...]
    operations: tuple[DittoOperation, ...] = ()
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    # Their parameters as OpenAPI has them.
    parameters: Mapping[str, Any] = field(default_factory=dict)


def document(more: MoreRoutes | None = None) -> dict[str, Any]:
    """The document as JSON values."""
    paths: dict[str, dict[str, Any]] = {}
    for one in (*OPERATIONS, *(() if more is None else more.operations)):
        paths.setdefault(one.path, {})[one.method] = one.described()
    (error,) = [{"schema": schema} for schema in json_of(ref("Error")).values()]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ditto",
            "version": __version__,
            "description": "Things, policies, messages, search; see docs/ditto.md.",
        },
        "servers": [{"url": ROOT}],
        "security": [{"password": []}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**SCHEMAS, **({} if more is None else more.schemas)},
            "parameters": {**parameters(), **({} if more is None else more.parameters)},
            "responses": {
                str(status): {"description": told, "content": {"application/json": error}}
                for status, told in REFUSALS.items()
            },
            "securitySchemes": {
                "password": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }
