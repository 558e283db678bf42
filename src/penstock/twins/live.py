"""Who may send and who may receive signals of the live channel, by the policy of the thing.

A message needs WRITE on its mailbox and subject, and READ to be received: resources `message:/inbox/messages/SUBJECT`
and so on. A command or an event needs what the same change, or the same look, of the thing needs. Nothing is stored.
"""

from __future__ import annotations

from penstock.twins.access import Permission, ResourceKind, Rights
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.pointer import MISSING, Absent, Pointer


def may_send_message(rights: Rights, pointer: Pointer) -> bool:
    return rights.scope(ResourceKind.MESSAGE, Permission.WRITE).covers(pointer)


def may_receive_message(rights: Rights, pointer: Pointer) -> bool:
    return rights.scope(ResourceKind.MESSAGE, Permission.READ).covers(pointer)


def may_change(rights: Rights, pointer: Pointer) -> bool:
    """Whether a command or an event that changes something may be sent."""
    return rights.scope(ResourceKind.THING, Permission.WRITE).covers_all(pointer)


def may_look(rights: Rights, pointer: Pointer) -> bool:
    """Whether a command that retrieves something may be sent; and whether a command or an event may be received."""
    return rights.scope(ResourceKind.THING, Permission.READ).touches(pointer)


def shown(rights: Rights, pointer: Pointer, value: Json) -> Json | Absent:
    """What of a command's, an event's or a response's value somebody may see; MISSING if that is nothing."""
    scope = rights.scope(ResourceKind.THING, Permission.READ)
    if scope.covers_all(pointer):
        return value
    if not scope.touches(pointer):
        return MISSING
    return scope.visible(value, pointer)
