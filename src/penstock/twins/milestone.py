"""Milestones: now and then a record carries, among its headers, what its entity was before it, as a whole.

So that what an entity was at some moment is known from a few records before that moment, however long its history, and
even if its beginning is gone. A milestone tells what was on the disk when its record was appended: it is right whatever
becomes of changes that were still on their way then. Read next: `history`.
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
    """What the headers of a record say that its entity was; None if they do not."""
    if headers is None or HEADER not in headers:
        return None
    try:
        return _DECODER.decode(headers).milestone
    except msgspec.DecodeError:
        return None


def places(revision: int) -> Iterator[int]:
    """Revisions whose records may carry a milestone, from this one backwards.

    In ever larger steps: where the first has none, as in a journal of an older version, the next may not either.
    """
    place, step = revision - revision % EVERY, EVERY
    while place > 0:
        yield place
        place, step = place - step, step * 2
