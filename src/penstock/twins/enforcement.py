"""Which permission a command needs, and the error for those who lack it.

To write takes WRITE on the place and on all below it, to read takes READ on the place or on anything below. Who may
read nothing of an entity is told that there is none; all others are told what they may not do.
"""

from __future__ import annotations

from penstock.twins.access import Kind, Permission, Rights, Scope
from penstock.wire.ditto.errors import THING_NOT_DELETABLE, DittoError
from penstock.wire.ditto.resource import Part, Resource
from penstock.wire.ditto.topic import Action, Group
from penstock.wire.ditto.twin import Command


def kind_of(group: Group) -> Kind:
    return Kind.POLICY if group is Group.POLICIES else Kind.THING


def readable(group: Group, rights: Rights) -> Scope:
    """What of a thing, or of a policy, may be read."""
    return rights.scope(kind_of(group), Permission.READ)


def not_found(group: Group, id: str) -> DittoError:
    """There is no such thing, or policy, or its reader must not know that there is."""
    return Resource(Part.POLICY if group is Group.POLICIES else Part.THING, ()).not_found(id)


def enforce(command: Command, rights: Rights) -> None:
    """Raises the error for a caller who may not do this to an entity that exists."""
    group, resource, id = command.topic.group, command.resource, str(command.entity)
    reading = readable(group, rights)
    if command.action is Action.RETRIEVE:
        if not reading.touches(()):
            raise not_found(group, id)
        if not reading.touches(resource.pointer):
            raise resource.not_found(id)
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
        raise THING_NOT_DELETABLE.of(id)
    raise resource.not_modifiable(id)


def has_history(group: Group, rights: Rights) -> bool:
    """Whether all that ever happened may be read: of a thing by those who may read all of it, of a policy by any."""
    reading = readable(group, rights)
    return reading.touches(()) if group is Group.POLICIES else reading.covers_all(())
