"""The operations on policies and their parts, and the actions of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.doors.ditto.openapi.operation import ALWAYS, NOTHING, Contents, DittoOperation, Schema, json_of, ref
from penstock.doors.ditto.openapi.parameters import ANSWER, MOMENT, TAGS
from penstock.twins.integration import ACTIVATE, DEACTIVATE

ROOT = "/policies/{policy_id}"
ENTRY = f"{ROOT}/entries/{{label}}"
IMPORT = f"{ROOT}/imports/{{import_id}}"

# Parts that stay are replaced, and not deleted.
_STAYS = ("get", "put")


@dataclass(frozen=True, slots=True)
class PolicyPart:
    path: str
    what: str
    value: Schema
    methods: tuple[str, ...] = ("get", "put", "delete")
    # What is read, if that is more than can be written.
    read: Schema | None = None


PARTS = (
    PolicyPart(ROOT, "a policy", ref("Policy"), read=ref("ResolvedPolicy")),
    PolicyPart(f"{ROOT}/entries", "all entries", ref("Entries"), _STAYS, ref("ResolvedEntries")),
    PolicyPart(ENTRY, "an entry", ref("Entry")),
    PolicyPart(f"{ENTRY}/subjects", "its subjects", ref("Subjects"), _STAYS),
    PolicyPart(f"{ENTRY}/subjects/{{subject_id}}", "a subject", ref("Subject")),
    PolicyPart(f"{ENTRY}/resources", "its resources", ref("Resources"), _STAYS),
    PolicyPart(f"{ENTRY}/resources/{{resource}}", "a resource", ref("Resource")),
    PolicyPart(f"{ENTRY}/importable", "whether others import the entry", ref("Importable")),
    PolicyPart(f"{ENTRY}/allowedAdditions", "what may be added to the entry", ref("AllowedAdditions")),
    PolicyPart(f"{ENTRY}/namespaces", "for which namespaces the entry is", ref("Namespaces")),
    PolicyPart(f"{ENTRY}/references", "the entries that it refers to", ref("References")),
    PolicyPart(f"{ROOT}/imports", "all imports", ref("Imports"), _STAYS),
    PolicyPart(IMPORT, "an import", ref("Import")),
    PolicyPart(f"{IMPORT}/entries", "the entries that it names", ref("Labels"), _STAYS),
    PolicyPart(f"{IMPORT}/transitiveImports", "which imports of it count", ref("PolicyIds"), _STAYS),
)


def _of(part: PolicyPart) -> Iterator[DittoOperation]:
    """What can be done with a part."""
    changed: dict[int, Contents] = {202: NOTHING, 204: NOTHING}
    refused = (*ALWAYS, 403, 404, 408, 409, 412)
    for method in part.methods:
        if method == "get":
            answers = {200: json_of(part.read or part.value), 202: NOTHING, 304: NOTHING}
            yield DittoOperation(
                method,
                part.path,
                f"Read {part.what}",
                answers,
                (*ALWAYS, 404, 408, 412),
                parameters=(*ANSWER, *TAGS, "fields", *MOMENT, "policy-view"),
                tag="Policies",
            )
        elif method == "put":
            yield DittoOperation(
                method,
                part.path,
                f"Create or replace {part.what}",
                {**changed, 201: json_of(part.value)},
                (*refused, 413, 415),
                json_of(part.value),
                parameters=(*ANSWER, *TAGS, "if-equal"),
                tag="Policies",
            )
        else:
            yield DittoOperation(
                method, part.path, f"Delete {part.what}", changed, refused, parameters=(*ANSWER, *TAGS), tag="Policies"
            )


def _actions() -> Iterator[DittoOperation]:
    for action, told in ((ACTIVATE, "Add the subjects of the caller's token to"), (DEACTIVATE, "Remove them from")):
        for place, where in ((ROOT, "all entries that are the caller's"), (ENTRY, "an entry")):
            yield DittoOperation(
                "post",
                f"{place}/actions/{action}",
                f"{told} {where}",
                {204: NOTHING},
                (*ALWAYS, 403, 404, 409, 413, 415),
                json_of({"type": "object"}),
                is_body_required=False,
                parameters=("correlation-id",),
                tag="Policies",
            )


_NEW = DittoOperation(
    "post",
    "/policies",
    "Create a policy with a generated ID",
    {201: json_of(ref("Policy")), 202: NOTHING},
    (*ALWAYS, 403, 404, 408, 409, 412, 413, 415),
    json_of(ref("NewPolicy")),
    is_body_required=False,
    parameters=(*ANSWER, "namespace"),
    tag="Policies",
)

OPERATIONS = (_NEW, *[each for part in PARTS for each in _of(part)], *_actions())
