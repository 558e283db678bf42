"""Identifiers of things and policies: a namespace, a colon and a name. What an item is called as a thing is in `items`.

Upstream documentation: "Namespaces and names".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.wire.ditto.policy_errors import POLICY_ID_INVALID
from penstock.wire.ditto.thing_errors import THING_ID_INVALID

# Characters of a whole identifier.
MAX_LENGTH = 256

_NAMESPACE = re.compile(r"(?:[a-zA-Z]\w*(?:[.-][a-zA-Z]\w*)*)?", re.ASCII)

# Upstream counts the upper half of Latin-1 as control characters, including letters with accents.
_NAME = re.compile(r"[^\x00-\x1f\x7f-\xff/\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class EntityId:
    """The identifier of a thing or a policy, known to be valid."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}:{self.name}"


def is_namespace(text: str) -> bool:
    """Whether this is a valid namespace; it may be empty."""
    return _NAMESPACE.fullmatch(text) is not None


def entity_id(namespace: str, name: str) -> EntityId | None:
    """The identifier made of these two, or None if it would be invalid."""
    if len(namespace) + 1 + len(name) > MAX_LENGTH or not is_namespace(namespace) or _NAME.fullmatch(name) is None:
        return None
    return EntityId(namespace, name)


def parse_thing_id(text: str) -> EntityId:
    """Raises `things:id.invalid`."""
    namespace, colon, name = text.partition(":")
    found = entity_id(namespace, name) if colon else None
    if found is None:
        raise THING_ID_INVALID.of(text)
    return found


def parse_policy_id(text: str) -> EntityId:
    """Raises `policies:id.invalid`."""
    namespace, colon, name = text.partition(":")
    found = entity_id(namespace, name) if colon else None
    if found is None:
        raise POLICY_ID_INVALID.of(text)
    return found
