"""A command to a thing or a policy, in the terms of the rules: who sends it, what is to be done where, and on which
conditions.

Doors make it from what clients send, and authenticate them. Its result is in `decision`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from penstock.twins.access import Subjects
from penstock.twins.names import EntityKey
from penstock.twins.ports import NewRecord
from penstock.twins.preconditions import NO_CONDITIONS, Conditions
from penstock.twins.wot.model import ModelBook
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.fields import Fields
from penstock.wire.ditto.ids import EntityId
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.metadata import MetadataWish
from penstock.wire.ditto.migration import Migration
from penstock.wire.ditto.resource import Resource


@dataclass(frozen=True, slots=True)
class Caller:
    """`names` are subjects such as `nginx:ditto`; the first is the one that gets the rights of a creator.

    `origin` identifies the connection; events carry it, so that they are not sent back there. `marks` go to the disk
    together with what the command changes, or not at all: by them a command that comes again is recognised.
    """

    names: tuple[str, ...]
    origin: object = None
    marks: tuple[NewRecord, ...] = ()
    subjects: Subjects = field(init=False)

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("names is empty; a caller has at least one subject")
        object.__setattr__(self, "subjects", frozenset(self.names))


@dataclass(frozen=True, slots=True)
class TwinCommand:
    """One command to one entity. The value of those that have none is UNSET.

    `path` is the place as the sender wrote it, `kept` is journaled with the changes, `correlation` is what the sender
    calls the command: it is repeated with them.
    """

    action: Action
    group: EntityGroup
    entity: EntityId
    resource: Resource
    path: str
    value: Json | UnsetType = UNSET
    fields: Fields | None = None
    conditions: Conditions = NO_CONDITIONS
    kept: Mapping[str, Json] = field(default_factory=dict)
    correlation: Json = None
    # Whether a policy is to be retrieved with all that it imports.
    is_resolved: bool = False
    metadata: MetadataWish | None = None
    # What a migration is to do, and whether it is only tried.
    migration: Migration | None = None
    is_dry_run: bool = False
    # The models that its definitions name, as far as they are known.
    models: ModelBook = field(default_factory=dict)

    @property
    def key(self) -> EntityKey:
        return EntityKey(self.group, str(self.entity))


@dataclass(frozen=True, slots=True)
class RetrieveThings:
    """Retrieves those of these things that the caller may read."""

    entities: tuple[EntityId, ...]
    fields: Fields | None
