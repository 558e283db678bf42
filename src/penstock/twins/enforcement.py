"""Which permission a command needs, and the reason for refusing it to those who lack it.

Writing needs WRITE on the place and on all below it; reading needs READ on the place or on anything below. A caller who
may read nothing of an entity is told that it does not exist; all others are told what they may not do.
"""

from __future__ import annotations

from penstock.twins.access import Permission, Rights, kind_of, readable
from penstock.twins.command import TwinCommand
from penstock.twins.reasons import NotDeletable, NotFound, NotModifiable, TwinRefusal
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.resource import Part, Resource


def not_found(group: EntityGroup, id: str) -> TwinRefusal:
    """There is no such thing or policy, or the caller must not know that there is."""
    return TwinRefusal(NotFound(id, Resource(Part.POLICY if group is EntityGroup.POLICIES else Part.THING, ())))


def enforce(command: TwinCommand, rights: Rights) -> None:
    """Raises the refusal for a caller who may not do this to an entity that exists."""
    group, resource, id = command.group, command.resource, str(command.entity)
    reading = readable(group, rights)
    if command.action is Action.RETRIEVE:
        if not reading.touches(()):
            raise not_found(group, id)
        if not reading.touches(resource.pointer):
            raise TwinRefusal(NotFound(id, resource))
        return
    writing = rights.scope(kind_of(group), Permission.WRITE)
    if command.action is Action.MERGE:
        allowed = writing.covers_patch(resource.pointer, command.value)
    else:
        allowed = writing.covers_all(resource.pointer)
    if allowed:
        return
    if not reading.touches(()):
        raise not_found(group, id)
    if command.action is Action.DELETE and resource.part is Part.THING:
        raise TwinRefusal(NotDeletable(id))
    raise TwinRefusal(NotModifiable(id, resource))


def has_history(group: EntityGroup, rights: Rights) -> bool:
    """Whether all that ever happened may be read: of a thing by those who may read all of it, of a policy by any."""
    reading = readable(group, rights)
    return reading.touches(()) if group is EntityGroup.POLICIES else reading.covers_all(())
