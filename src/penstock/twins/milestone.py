"""Milestones: from time to time a record carries, among its headers, the whole state of its entity before it.

So the state at some moment can be computed from a few records before it, however long the history is, and even if its
beginning is gone. A milestone has the state on the disk when its record was appended: it is right whatever becomes of
changes that were still pending then. Read next: `history`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from penstock.twins.twin import Twin
from penstock.wire.ditto.document import Json

# Revisions from one milestone to the next: more make reading a moment slower, fewer the journal larger.
EVERY = 256

# The header's name. No client can send it: only headers that are configured are kept.
HEADER = "penstock-milestone"


class _Headers(msgspec.Struct, frozen=True):
    milestone: Twin | None = msgspec.field(name=HEADER, default=None)


_DECODER = msgspec.json.Decoder(_Headers)


def with_milestone(headers: Mapping[str, Json], revision: int, before: Twin | None) -> Mapping[str, Json]:
    """The headers of the record that will have this revision; `before` is on the disk, None if there is nothing."""
    if revision % EVERY or before is None:
        return headers
    return {**headers, HEADER: before}


def milestone_in(headers: str | None) -> Twin | None:
    """The state of the entity in the headers of a record; None if they have none."""
    if headers is None or HEADER not in headers:
        return None
    try:
        return _DECODER.decode(headers).milestone
    except msgspec.DecodeError:
        return None


def places(revision: int) -> Iterator[int]:
    """Revisions whose records may carry a milestone, from this one backwards.

    In growing steps: if the first has none, as in a journal of an older version, the next may have none either.
    """
    place, step = revision - revision % EVERY, EVERY
    while place > 0:
        yield place
        place, step = place - step, step * 2
