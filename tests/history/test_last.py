"""The newest event, and the newest before a time, are found from the end, whatever the clock has done."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from penstock.history.reader import History
from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader
from penstock.journal.retention import Retention
from tests.history.world import NOON, SECOND, World, random_rows

NAMES = ["often", "sel*om", "r?re", "often2"]


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_last_of_those_before_a_time(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    world = World(tmp_path, segment_bytes=8_000)
    for part in range(6):
        world.append(random_rows(random, NAMES, 60))
        if part in (1, 3):
            world.move()
        if part == 3:
            world.drop()
    for entity in (*NAMES, "never"):
        assert world.history.last(entity) == next(reversed(world.of(entity)), None)
        for _ in range(30):
            until = NOON + random.randrange(-700, 1700) * SECOND
            expected = next(reversed(world.of(entity, until=until)), None)
            assert world.history.last(entity, until) == expected
            assert world.history.last_revision(entity, until) == (0 if expected is None else expected.revision)
    world.close()


def test_little_is_read_of_a_long_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    for _ in range(40):
        world.fill(60)
    decoded = 0
    decode = JournalReader._decode

    def counting(self: JournalReader, *arguments: object) -> object:
        nonlocal decoded
        decoded += 1
        return decode(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(JournalReader, "_decode", counting)
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 1)
    assert world.history.last("item-1") == world.of("item-1")[-1]
    assert 0 < decoded < 10
    world.close()


def test_what_neither_has_any_more_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=8_000)
    world.history.check_whole()
    world.fill(200)
    world.move()
    world.fill(200)
    world.drop()
    History(tmp_path / "nothing", tmp_path / "nowhere").check_whole()
    world.history.check_whole()
    world.fill(200)
    # By hand: the lake has less than that.
    assert world.journal.retain(Retention(max_bytes=0), world.journal.committed)
    with pytest.raises(Expired):
        world.history.check_whole()
    world.close()
