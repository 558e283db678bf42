"""What listeners are told: a change that is on the disk, what was before and is now, and who may know of it.

Doors make live events of it, data adapter THINGS makes updates. What a partial reader gets of an event is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec import UNSET

from penstock.twins.access import NO_RIGHTS, Access, Scope, Subjects
from penstock.twins.enforcement import readable
from penstock.twins.names import Key
from penstock.twins.twin import Change, Twin
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.pointer import MISSING, Missing, Pointer
from penstock.wire.ditto.topic import Action
from penstock.wire.ditto.twin import Event


@dataclass(frozen=True, slots=True)
class Told:
    """`access` is by the policy that now holds; None where there is none, and then nobody may know."""

    key: Key
    change: Change
    event: Event
    before: Twin | None
    after: Twin | None
    access: Access | None
    origin: object

    def event_for(self, subjects: Subjects) -> Event | None:
        """The event as far as these subjects may read it; None if that is nothing."""
        rights = NO_RIGHTS if self.access is None else self.access.rights(subjects)
        return trimmed(self.event, self.change, readable(self.key.group, rights))


def trimmed(event: Event, change: Change, scope: Scope) -> Event | None:
    """An event without what must not be read. That something is gone is known to those who could read any of it."""
    if change.kind is Action.DELETED:
        return event if scope.touches(change.pointer) else None
    if scope.covers_all(change.pointer):
        return event
    if change.kind is Action.MERGED:
        value = _patch(change.value, change.pointer, scope)
    else:
        value = scope.visible(change.value, change.pointer)
    if isinstance(value, Missing) or value is UNSET:
        return None
    return replace(event, value=value)


def _patch(patch: Json, pointer: Pointer, scope: Scope) -> Json | Missing:
    """What is left of a merge patch. A null takes away all that was below, so those who could read any of it see it."""
    if patch is None:
        return None if scope.touches(pointer) else MISSING
    if type(patch) is not dict or not patch:
        return scope.visible(patch, pointer)
    kept = {key: _patch(value, (*pointer, key), scope) for key, value in patch.items()}
    result = {key: value for key, value in kept.items() if not isinstance(value, Missing)}
    return result if result else MISSING
