"""One operation of the HTTP API as a line of a table, and as OpenAPI has it.

Parameters, refusals and schemas are named here and written once, in the components of the document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.wire.ditto.envelope import JSON_TYPE

Schema = dict[str, Any]

# Schemas by media type; empty if there is no body.
Contents = Mapping[str, Schema]

NOTHING: Contents = {}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def json_of(schema: Schema) -> Contents:
    return {JSON_TYPE: schema}


@dataclass(frozen=True, slots=True)
class DittoOperation:
    method: str
    path: str
    summary: str
    # What is answered, by status.
    answers: Mapping[int, Contents]
    # Those that have the form of errors.
    refusals: tuple[int, ...]
    body: Contents = field(default_factory=dict)
    is_body_required: bool = True
    # Names of the table of parameters, besides those in the path.
    parameters: tuple[str, ...] = ()
    # Whether there are answers of others that are passed on, with any status.
    is_passed_on: bool = False
    tag: str = "Things"

    @property
    def path_parameters(self) -> list[str]:
        return re.findall(r"\{(\w+)\}", self.path)

    @property
    def identity(self) -> str:
        return "_".join([self.method, *re.findall(r"\w+", self.path)])

    def described(self) -> dict[str, Any]:
        """The operation as OpenAPI has it."""
        answers: dict[str, Any] = {
            str(status): {"description": ANSWERS[status], **_content(contents)}
            for status, contents in self.answers.items()
        }
        for status in self.refusals:
            answers[str(status)] = {"$ref": f"#/components/responses/{status}"}
        if self.is_passed_on:
            answers["default"] = {"description": "What the thing has answered: its status, its type, its body"}
        found: dict[str, Any] = {
            "operationId": self.identity,
            "tags": [self.tag],
            "summary": self.summary,
            "responses": dict(sorted(answers.items())),
        }
        names = [*self.path_parameters, *self.parameters]
        if names:
            found["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in names]
        if self.body:
            found["requestBody"] = {"required": self.is_body_required, **_content(self.body)}
        return found


def _content(contents: Contents) -> dict[str, Any]:
    return {"content": {kind: {"schema": schema} for kind, schema in contents.items()}} if contents else {}


ANSWERS = {
    200: "The answer",
    201: "It did not exist and was created; `Location` is its address",
    202: "The request is valid; no answer was asked for, or nothing was changed because it was a trial",
    204: "Done",
    304: "The client has the current value, as `if-none-match` says",
    408: "Not answered, or not acknowledged, in time",
    424: "Not all of the acknowledgements that were asked for are good",
}

REFUSALS = {
    400: "The request is invalid; the error says what is wrong and what is allowed",
    401: "User and password, or the token, are missing or wrong",
    403: "The caller may read it but not do this, or nobody could change the policy afterwards",
    404: "It does not exist, or the caller may not know that it does",
    408: "Not carried out within the `timeout`",
    409: "It exists already, is still referred to, or another request with this correlation ID is waiting",
    412: "A condition or a tag is not that of the current value, or the value is the same",
    413: "Too large",
    415: "The body has a type that is not accepted here",
    421: "The Thing Model of the definition cannot be read",
    429: "Too many wrong passwords from this address",
    503: "It cannot be checked or written at the moment; try again",
    504: "The broker cannot be reached",
}

# Possible whatever is asked.
ALWAYS = (400, 401, 503)
