"""What things and policies are called in the journal. A thing is an item of data adapter THINGS, a policy of POLICIES.

Both belong to one adapter set, DITTO unless configured otherwise. What items are called as things: `wire.ditto.items`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.journal.entity import entity_of, parts_of
from penstock.wire.ditto.ids import EntityId, entity_id
from penstock.wire.ditto.kinds import EntityGroup

THINGS = "THINGS"
POLICIES = "POLICIES"

DEFAULT_SET = "DITTO"


@dataclass(frozen=True, slots=True)
class EntityKey:
    """One thing or one policy; a policy with the identifier of a thing is another entity."""

    group: EntityGroup
    id: str

    @property
    def is_policy(self) -> bool:
        return self.group is EntityGroup.POLICIES


@dataclass(frozen=True, slots=True)
class TwinNames:
    """The names of one adapter set."""

    adapter_set: str = DEFAULT_SET

    def entity(self, key: EntityKey) -> str:
        """What the journal calls it."""
        return entity_of(self.adapter_set, POLICIES if key.group is EntityGroup.POLICIES else THINGS, key.id)

    def key(self, entity: str) -> EntityKey | None:
        """What an entity of the journal is; None for one that is neither thing nor policy."""
        parts = parts_of(entity)
        if parts is None or parts[0] != self.adapter_set or parts[1] not in (THINGS, POLICIES):
            return None
        if _id(parts[2]) is None:
            return None
        return EntityKey(EntityGroup.THINGS if parts[1] == THINGS else EntityGroup.POLICIES, parts[2])

    def patterns(self) -> tuple[str, ...]:
        """Which entities of the journal are things and policies, `*` standing for anything."""
        return tuple(entity_of(self.adapter_set, adapter, "*") for adapter in (THINGS, POLICIES))


def thing_key(id: EntityId | str) -> EntityKey:
    return EntityKey(EntityGroup.THINGS, str(id))


def policy_key(id: EntityId | str) -> EntityKey:
    return EntityKey(EntityGroup.POLICIES, str(id))


def _id(text: str) -> EntityId | None:
    namespace, colon, name = text.partition(":")
    return entity_id(namespace, name) if colon else None
