"""Questions about permissions, as clients ask them: by name, a resource, an entity, and what is to be done there.

They are answered in `doors.ditto.service`. Upstream documentation: "Checking permissions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.wire.ditto.document import Json, expect, text_of
from penstock.wire.ditto.errors import FIELD_MISSING, JSON_INVALID, wrong_type
from penstock.wire.ditto.ids import parse_policy_id, parse_thing_id
from penstock.wire.ditto.pointer import Pointer, parse_pointer

# Questions of one request.
MAX_CHECKS: Final = 100

_KINDS: Final = ("thing", "policy", "message")
_PERMISSIONS: Final = ("READ", "WRITE", "EXECUTE")


@dataclass(frozen=True, slots=True)
class PermissionCheck:
    kind: str
    pointer: Pointer
    entity: str
    permissions: tuple[str, ...]


def permission_checks(value: Json) -> dict[str, PermissionCheck]:
    """Raises the error to answer with, which names what is wrong."""
    expect(value, dict, "/")
    if not 1 <= len(value) <= MAX_CHECKS:
        raise JSON_INVALID.of(f"{len(value)} permission checks are given.", description=f"Allowed: 1 to {MAX_CHECKS}.")
    return {name: _check(name, each) for name, each in value.items()}


def _check(name: str, value: Json) -> PermissionCheck:
    place = f"/{name}"
    expect(value, dict, place)
    for member in ("resource", "entityId", "hasPermissions"):
        if value.get(member) is None:
            raise FIELD_MISSING.of(f"{place}/{member}")
    resource = str(expect(value["resource"], str, f"{place}/resource"))
    entity = str(expect(value["entityId"], str, f"{place}/entityId"))
    kind, colon, path = resource.partition(":")
    if not colon or kind not in _KINDS:
        raise wrong_type(text_of(resource), f"{place}/resource", "resource: thing:/…, policy:/… or message:/…")
    (parse_policy_id if kind == "policy" else parse_thing_id)(entity)
    permissions = expect(value["hasPermissions"], list, f"{place}/hasPermissions")
    if not permissions or any(each not in _PERMISSIONS for each in permissions):
        raise wrong_type(text_of(permissions), f"{place}/hasPermissions", "list of READ, WRITE or EXECUTE")
    return PermissionCheck(kind, parse_pointer(path), entity, tuple(permissions))
