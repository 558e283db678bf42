"""The operations on things and their parts, on their mailboxes, and on several things."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.doors.ditto.openapi.operation import ALWAYS, NOTHING, Contents, DittoOperation, Schema, json_of, ref
from penstock.doors.ditto.openapi.parameters import ANSWER, HISTORY, MOMENT, TAGS
from penstock.wire.ditto.envelope import JSON_TYPE, MERGE_PATCH_TYPE

ROOT = "/things/{thing_id}"
FEATURE = f"{ROOT}/features/{{feature_id}}"
EVENTS = {"text/event-stream": ref("Events")}
DESCRIPTION = {"application/td+json": ref("ThingDescription")}

_ACKNOWLEDGED = json_of(ref("Acknowledgements"))
_LATE = json_of({"anyOf": [ref("Error"), ref("Acknowledgements")]})
_CHANGING = (*ANSWER, *TAGS, "condition", "requested-acks", "channel", "put-metadata", "delete-metadata")
_READING = (*ANSWER, *TAGS, "condition", "channel", "fields", *MOMENT, *HISTORY, "event-filter", "get-metadata")


@dataclass(frozen=True, slots=True)
class ThingPart:
    path: str
    what: str
    value: Schema
    patch: Schema
    methods: tuple[str, ...] = ("get", "put", "patch", "delete")
    is_described: bool = False


PARTS = (
    ThingPart(ROOT, "a thing", ref("Thing"), ref("ThingPatch"), is_described=True),
    ThingPart(f"{ROOT}/policyId", "the policy ID", ref("EntityId"), ref("EntityId"), ("get", "put", "patch")),
    ThingPart(f"{ROOT}/definition", "the definition", ref("Definition"), ref("Definition")),
    ThingPart(f"{ROOT}/attributes", "all attributes", ref("Properties"), ref("ObjectPatch")),
    ThingPart(f"{ROOT}/attributes/{{path}}", "an attribute", ref("Value"), ref("Value")),
    ThingPart(f"{ROOT}/features", "all features", ref("Features"), ref("ObjectPatch")),
    ThingPart(FEATURE, "a feature", ref("Feature"), ref("ObjectPatch"), is_described=True),
    ThingPart(f"{FEATURE}/definition", "its definition", ref("FeatureDefinition"), ref("FeatureDefinition")),
    ThingPart(f"{FEATURE}/properties", "its properties", ref("Properties"), ref("ObjectPatch")),
    ThingPart(f"{FEATURE}/properties/{{path}}", "a property", ref("Value"), ref("Value")),
    ThingPart(f"{FEATURE}/desiredProperties", "its desired properties", ref("Properties"), ref("ObjectPatch")),
    ThingPart(f"{FEATURE}/desiredProperties/{{path}}", "a desired property", ref("Value"), ref("Value")),
)


def _of(part: ThingPart) -> Iterator[DittoOperation]:
    """What can be done with a part."""
    changed: dict[int, Contents] = {202: NOTHING, 204: NOTHING, 200: _ACKNOWLEDGED, 408: _LATE, 424: _ACKNOWLEDGED}
    made = {**changed, 201: json_of(part.value)}
    refused = (*ALWAYS, 403, 404, 409, 412, 413, 421)
    parameters: tuple[str, ...]
    for method in part.methods:
        if method == "get":
            found = {**json_of(part.value), **EVENTS, **(DESCRIPTION if part.is_described else {})}
            answers: dict[int, Contents] = {200: found, 202: NOTHING, 304: NOTHING}
            told = f"Read {part.what}, as it is now or was, or its events as a stream"
            refusals = (*ALWAYS, 403, 404, 408, 409, 412, 421)
            yield DittoOperation(method, part.path, told, answers, refusals, parameters=_READING)
        elif method == "put":
            body = json_of(part.value)
            parameters = (*_CHANGING, "if-equal")
            told = f"Create or replace {part.what}"
            yield DittoOperation(method, part.path, told, made, (*refused, 415), body, parameters=parameters)
        elif method == "patch":
            parameters = (*_CHANGING, "if-equal", "merge-thing-patch-conditions")
            body = {MERGE_PATCH_TYPE: part.patch}
            yield DittoOperation(
                method, part.path, f"Merge {part.what}", made, (*refused, 415), body, parameters=parameters
            )
        else:
            parameters = tuple([name for name in _CHANGING if not name.endswith("metadata")])
            yield DittoOperation(method, part.path, f"Delete {part.what}", changed, refused, parameters=parameters)


def _messages() -> Iterator[DittoOperation]:
    body = {JSON_TYPE: ref("Value"), "text/plain": {"type": "string"}, "application/octet-stream": {}}
    boxes = [f"{place}/{mailbox}" for place in (ROOT, FEATURE) for mailbox in ("inbox", "outbox")]
    paths = {f"{box}/messages/{{subject}}": "Send a message, and pass on its answer" for box in boxes}
    paths[f"{ROOT}/inbox/claim"] = "Ask a thing for permissions, and pass on its answer"
    for path, summary in paths.items():
        yield DittoOperation(
            "post",
            path,
            summary,
            {202: NOTHING},
            (*ALWAYS, 403, 404, 408, 409, 413),
            body,
            is_body_required=False,
            parameters=(*ANSWER, "requested-acks"),
            is_passed_on=True,
            tag="Messages",
        )


def _message_streams() -> Iterator[DittoOperation]:
    for place in (ROOT, FEATURE):
        for mailbox in ("inbox", "outbox"):
            for subject in ("", "/{subject}"):
                yield DittoOperation(
                    "get",
                    f"{place}/{mailbox}/messages{subject}",
                    "Get the messages from now on as a stream; only with Accept: text/event-stream",
                    {200: EVENTS},
                    (*ALWAYS, 404),
                    parameters=("correlation-id",),
                    tag="Messages",
                )


def _several() -> Iterator[DittoOperation]:
    yield DittoOperation(
        "get",
        "/things",
        "Read several things, or get the events of all as a stream",
        {200: {**json_of(ref("Things")), **EVENTS}, 202: NOTHING},
        (*ALWAYS, 408),
        parameters=(*ANSWER, "ids", "fields", "namespaces", "event-filter"),
    )
    yield DittoOperation(
        "post",
        "/things",
        "Create a thing with a generated ID",
        {201: json_of(ref("Thing")), 202: NOTHING},
        (*ALWAYS, 403, 408, 409, 412, 413, 415, 421),
        json_of(ref("NewThing")),
        is_body_required=False,
        parameters=(*ANSWER, "namespace"),
    )
    yield DittoOperation(
        "post",
        f"{ROOT}/migrateDefinition",
        "Give a thing another definition, or only try that",
        {200: json_of(ref("Migrated")), 202: json_of(ref("Migrated"))},
        (*ALWAYS, 403, 404, 408, 412, 413, 415, 421),
        json_of(ref("Migration")),
        parameters=("correlation-id", "timeout", "dry-run", *TAGS, "condition"),
    )


OPERATIONS = (*_several(), *[each for part in PARTS for each in _of(part)], *_messages(), *_message_streams())
