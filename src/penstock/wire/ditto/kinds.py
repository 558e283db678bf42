"""What messages are about and what is done to it: plain values that the rules of twins use as well.

How a topic spells them is in `topic`, which parts a thing or a policy has in `resource`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class EntityGroup(StrEnum):
    THINGS = "things"
    POLICIES = "policies"
    CONNECTIONS = "connections"


class Action(StrEnum):
    """What a command asks for, and what an event says has happened."""

    CREATE = "create"
    RETRIEVE = "retrieve"
    MODIFY = "modify"
    MERGE = "merge"
    DELETE = "delete"
    MIGRATE = "migrate"
    CREATED = "created"
    MODIFIED = "modified"
    MERGED = "merged"
    MIGRATED = "migrated"
    DELETED = "deleted"


COMMANDS: Final = (Action.CREATE, Action.MODIFY, Action.MERGE, Action.DELETE, Action.RETRIEVE)
EVENTS: Final = (Action.CREATED, Action.MODIFIED, Action.MERGED, Action.DELETED)
