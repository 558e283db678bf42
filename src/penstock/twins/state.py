"""The state of all things and policies at one place in the journal: what a start begins with.

Saved by a door, so that a start reads only the records after it. If the saved one is lost or too old it is rebuilt from
the histories, which takes time for each entity. Read next: docs/ditto.md, "Durability".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.twins.history import last_state
from penstock.twins.names import TwinNames
from penstock.twins.ports import WholeArchive
from penstock.twins.twin import Twin


@dataclass(frozen=True, slots=True)
class TwinsState:
    """What there was after the record with this sequence, by the names that the journal has."""

    sequence: int = 0
    twins: dict[str, Twin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A rebuilt state, and the last revisions of entities whose state is unknown."""

    state: TwinsState
    unknown: dict[str, int]


def rebuilt(archive: WholeArchive, names: TwinNames, old: TwinsState, sequence: int) -> Rebuilt:
    """What there is after the record with this sequence, the last of all; nobody may write meanwhile. Blocks.

    Begins with the old state, where that has something. Raises what `check_whole` does if there is a gap.
    """
    archive.check_whole()
    twins: dict[str, Twin] = {}
    unknown: dict[str, int] = {}
    table = archive.summary()
    for entity, last in zip(table["entity"].to_pylist(), table["last_revision"].to_pylist(), strict=True):
        key = names.key(entity)
        if key is None:
            continue
        found, is_known = last_state(archive, key, entity, last, old.twins.get(entity))
        if found is not None:
            twins[entity] = found
        elif not is_known:
            unknown[entity] = last
    return Rebuilt(TwinsState(sequence, twins), unknown)
