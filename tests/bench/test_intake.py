"""The intake benchmark in miniature: by every way in, every item ends where it should. Times do not matter."""

from __future__ import annotations

import uvloop

from bench.rig.machine import Cores
from bench.scenarios import adapters


def test_every_update_arrives_by_every_way_in() -> None:
    figures = uvloop.run(adapters.compare(1, Cores()))
    assert not figures.failures
    assert set(figures.ours) == set(figures.bare) == {way.name for way in adapters.WAYS}
    assert all(figure > 0 for figure in (*figures.ours.values(), *figures.bare.values()))


def test_the_same_events_come_as_lines_and_as_rows() -> None:
    events = adapters.trades(50)
    bare = adapters.Bare(events)
    states = []
    for merge in (bare.merge, bare.lines, bare.stream):
        merge()
        states.append({item: dict(fields) for item, fields in bare._items.items()})
        for fields in bare._items.values():
            fields.clear()
    assert states[0] == states[1] == states[2]
    assert len(states[0]) == 30
