"""The state of all things and policies made again from their histories, where the saved one is lost or too old.

For a start when retention has dropped what the journal had after the saved state: the lake has it. Blocks, and takes
some milliseconds for each entity. Not here: saving and loading (`state`). Read next: docs/ditto.md, "Durability".
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock import log
from penstock.twins.history import Archive, last_state
from penstock.twins.names import Names
from penstock.twins.state import State

_log = log.get(__name__)


class Library(Archive, Protocol):
    """`penstock.history.reader.History`: an archive that knows what it has."""

    def check_whole(self) -> None:
        """Raises Expired if the journal has dropped what the lake does not have."""

    def summary(self) -> Any:
        """An Arrow table with a row for each entity, with its name and its last revision."""


def rebuilt(library: Library, names: Names, old: State, sequence: int) -> State:
    """What there is after the record with this sequence, the last of all; nobody may write meanwhile.

    What the old state has is the beginning, where it has something. Raises Expired if there is a hole.
    """
    library.check_whole()
    twins = {}
    table = library.summary()
    for entity, last in zip(table["entity"].to_pylist(), table["last_revision"].to_pylist(), strict=True):
        key = names.key(entity)
        if key is None:
            continue
        found, is_known = last_state(library, key, entity, last, old.twins.get(entity))
        if found is not None:
            twins[entity] = found
        elif not is_known:
            _log.error("the beginning of a history is gone: what was is not known", entity=entity, revision=last)
    return State(sequence, twins)
