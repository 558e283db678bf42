"""`{{ request:subjectId }}` in the IDs of the subjects of a policy: the subject that sends it.

So a document can say "me" without knowing how the server calls its sender. The older `${request.subjectId}` is the
same. Upstream documentation: "Placeholders", entity creation and modification.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import UnsetType

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.policy_errors import PLACEHOLDER_UNKNOWN
from penstock.wire.ditto.resource import Part, Resource

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}|\$\{\s*([^{}]*?)\s*\}")
_NAMES: Final = ("request:subjectId", "request.subjectId")


def with_sender(resource: Resource, value: Json | UnsetType, sender: str) -> tuple[Resource, Json | UnsetType]:
    """Where a command is to change what, with its sender in place of the placeholder.

    Raises `placeholder:placeholder.notresolvable` for other placeholders.
    """
    part, pointer = resource.part, resource.pointer
    if part is Part.SUBJECT:
        return Resource(part, (*pointer[:-1], _filled(pointer[-1], sender))), value
    if isinstance(value, UnsetType) or type(value) is not dict:
        return resource, value
    if part is Part.THING:
        policy = value.get("_policy")
        if type(policy) is dict:
            value = {**value, "_policy": _policy(policy, sender)}
    elif part is Part.POLICY:
        value = _policy(value, sender)
    elif part is Part.ENTRIES:
        value = _entries(value, sender)
    elif part is Part.ENTRY:
        value = _entry(value, sender)
    elif part is Part.SUBJECTS:
        value = _subjects(value, sender)
    return resource, value


def _policy(policy: dict[str, Json], sender: str) -> Json:
    entries = policy.get("entries")
    return {**policy, "entries": _entries(entries, sender)} if type(entries) is dict else policy


def _entries(entries: dict[str, Json], sender: str) -> Json:
    return {label: _entry(entry, sender) for label, entry in entries.items()}


def _entry(entry: Json, sender: str) -> Json:
    subjects = entry.get("subjects") if type(entry) is dict else None
    return {**entry, "subjects": _subjects(subjects, sender)} if type(subjects) is dict else entry


def _subjects(subjects: dict[str, Json], sender: str) -> Json:
    return {_filled(name, sender): subject for name, subject in subjects.items()}


def _filled(name: str, sender: str) -> str:
    if "{" not in name:
        return name
    for found in _PLACEHOLDER.finditer(name):
        if (found[1] or found[2]) not in _NAMES:
            raise PLACEHOLDER_UNKNOWN.of(found[1] or found[2] or "")
    return _PLACEHOLDER.sub(lambda _: sender, name)
