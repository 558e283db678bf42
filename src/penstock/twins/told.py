"""What listeners are told: a change that is on the disk, what was before and is now, and who may know of it.

Doors make live events of it, data adapter THINGS makes updates. What a partial reader gets of a change is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.twins.access import NO_RIGHTS, Access, Scope, Subjects, readable
from penstock.twins.names import EntityKey
from penstock.twins.twin import Change, Twin
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.pointer import MISSING, Absent, Pointer


@dataclass(frozen=True, slots=True)
class Told:
    """`access` is by the policy in force; None if there is none, and then nobody may know.

    `timestamp` is in microseconds since 1970. `correlation` is what the sender of the command calls it.
    """

    key: EntityKey
    change: Change
    revision: int
    timestamp: int
    correlation: Json
    before: Twin | None
    after: Twin | None
    access: Access | None
    origin: object

    def change_for(self, subjects: Subjects) -> Change | None:
        """The change as far as these subjects may read it: unchanged if they may read all of it, None if nothing."""
        rights = NO_RIGHTS if self.access is None else self.access.rights(subjects)
        return trimmed(self.change, readable(self.key.group, rights))


def trimmed(change: Change, scope: Scope) -> Change | None:
    """A change without what must not be read. A deletion is visible to those who could read any of it."""
    if change.kind is Action.DELETED:
        return change if scope.touches(change.pointer) else None
    if scope.covers_all(change.pointer):
        return change
    if change.kind is Action.MERGED:
        value = _patch(change.value, change.pointer, scope)
    else:
        value = scope.visible(change.value, change.pointer)
    return None if isinstance(value, Absent) else replace(change, value=value)


def _patch(patch: Json, pointer: Pointer, scope: Scope) -> Json | Absent:
    """What is left of a merge patch. A null deletes all below it, so it is visible to those who could read any."""
    if patch is None:
        return None if scope.touches(pointer) else MISSING
    if type(patch) is not dict or not patch:
        return scope.visible(patch, pointer)
    kept = {key: _patch(value, (*pointer, key), scope) for key, value in patch.items()}
    result = {key: value for key, value in kept.items() if not isinstance(value, Absent)}
    return result if result else MISSING
