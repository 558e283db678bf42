"""What things and policies are called in the journal. A thing is an item of data adapter THINGS, a policy of POLICIES.

Both belong to one adapter set, DITTO unless configured otherwise. What items are called as things: `wire.ditto.items`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.journal.entity import entity_of, parts_of
from penstock.journal.selection import Selection
from penstock.wire.ditto.ids import EntityId, entity_id
from penstock.wire.ditto.topic import Criterion, Group, Topic, policy_topic, thing_topic
from penstock.wire.ditto.twin import EVENTS

THINGS = "THINGS"
POLICIES = "POLICIES"

DEFAULT_SET = "DITTO"


@dataclass(frozen=True, slots=True)
class Key:
    """One thing or one policy; a policy with the identifier of a thing is another entity."""

    group: Group
    id: str

    @property
    def topic(self) -> Topic:
        """The topic of its events, but for what they tell."""
        namespace, _, name = self.id.partition(":")
        return (policy_topic if self.group is Group.POLICIES else thing_topic)(namespace, name, Criterion.EVENTS)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one adapter set."""

    adapter_set: str = DEFAULT_SET

    def entity(self, key: Key) -> str:
        """What the journal calls it."""
        return entity_of(self.adapter_set, POLICIES if key.group is Group.POLICIES else THINGS, key.id)

    def key(self, entity: str) -> Key | None:
        """What an entity of the journal is; None for one that is neither thing nor policy."""
        parts = parts_of(entity)
        if parts is None or parts[0] != self.adapter_set or parts[1] not in (THINGS, POLICIES):
            return None
        if _id(parts[2]) is None:
            return None
        return Key(Group.THINGS if parts[1] == THINGS else Group.POLICIES, parts[2])

    def selection(self) -> Selection:
        """All records of things and policies, and few others: a reader skips what holds none of them."""
        entities = tuple(entity_of(self.adapter_set, adapter, "*") for adapter in (THINGS, POLICIES))
        return Selection(entities, tuple(kind.value for kind in EVENTS))


def thing_key(id: EntityId | str) -> Key:
    return Key(Group.THINGS, str(id))


def policy_key(id: EntityId | str) -> Key:
    return Key(Group.POLICIES, str(id))


def _id(text: str) -> EntityId | None:
    namespace, colon, name = text.partition(":")
    return entity_id(namespace, name) if colon else None
