"""Mark, index and saved revisions: small files that may be damaged or missing without harm."""

from __future__ import annotations

from random import Random

import pytest

from penstock.journal.index import BLOCK_BYTES, IndexBuilder, load_index
from penstock.journal.mark import MARK_NAME, Mark, decode_mark, encode_mark, read_mark
from penstock.journal.revisions import drop_old_revisions, load_revisions, revisions_name, save_revisions
from penstock.journal.segment import DATA_START, FrameHeader, kind_bits
from penstock.journal.selection import EVERYTHING, EventSelection
from penstock.journal.sidecar import SidecarDamaged, read_sidecar
from penstock.testing.disk import FakeDisk

MARK = Mark(segment=5, position=9000, sequence=12, synced=11)


def test_a_mark_comes_back_and_every_flipped_bit_is_noticed() -> None:
    data = encode_mark(MARK)
    assert decode_mark(data) == MARK
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert decode_mark(bytes(changed)) is None
    for length in range(len(data)):
        assert decode_mark(data[:length]) is None


def test_a_journal_without_a_mark_has_none() -> None:
    disk = FakeDisk()
    assert read_mark(disk) is None
    disk.create(MARK_NAME).write(0, [encode_mark(MARK)])
    assert read_mark(disk) == MARK


def built(disk: FakeDisk) -> None:
    """Four frames in three blocks, the third of them after a damaged place."""
    builder = IndexBuilder()
    large = BLOCK_BYTES - 64
    for position, first, length, entities, kind in (
        (DATA_START, 1, large // 2, {"a", "b"}, "update"),
        (DATA_START + 64 + large // 2, 3, large, {"b"}, "delete"),
        (DATA_START + 128 + large // 2 + large, 5, 800, {"c"}, "update"),
        (DATA_START + 128 + large // 2 + large + 864 + 80, 9, 800, {"a"}, "update"),
    ):
        frame = FrameHeader(length, 0, first, first + 1, 0, first * 10, first * 10 + 5, kind_bits({kind}))
        builder.add(position, frame, entities)
    builder.save(disk, 1)


@pytest.mark.parametrize(
    ("selection", "firsts"),
    [
        (EVERYTHING, [1, 5, 9]),
        (EventSelection(entities=("a",)), [1, 9]),
        (EventSelection(entities=("b",)), [1]),
        (EventSelection(entities=("c", "b")), [1, 5]),
        (EventSelection(entities=("?",)), [1, 5, 9]),
        (EventSelection(entities=("none",)), []),
        (EventSelection(kinds=("delete",)), [1]),
        (EventSelection(since=36), [5, 9]),
        (EventSelection(until=50), [1]),
        (EventSelection(entities=("a",), since=36), [9]),
    ],
)
def test_the_index_leads_to_the_blocks_that_may_hold_what_is_wanted(
    selection: EventSelection, firsts: list[int]
) -> None:
    disk = FakeDisk()
    built(disk)
    index = load_index(disk, 1)
    assert index is not None
    assert [block.first for block in index.select(selection)] == firsts


def test_revisions_come_back_from_the_newest_that_can_be_read() -> None:
    disk = FakeDisk()
    assert load_revisions(disk) == (None, {}, [])
    save_revisions(disk, 1, {"a": 1})
    save_revisions(disk, 10, {"a": 5, "ö": 2})
    save_revisions(disk, 20, {"a": 6, "ö": 2})
    assert load_revisions(disk) == (20, {"a": 6, "ö": 2}, [])
    disk.flip(revisions_name(20), 999)
    assert load_revisions(disk) == (10, {"a": 5, "ö": 2}, [revisions_name(20)])
    drop_old_revisions(disk)
    assert sorted(disk.names()) == [revisions_name(10), revisions_name(20)]


def test_every_flipped_bit_and_every_cut_of_a_sidecar_is_noticed() -> None:
    whole = FakeDisk()
    save_revisions(whole, 1, {"a": 1})
    name = revisions_name(1)
    size = whole.size(name)
    random = Random(1)
    for bit in [*range(160), *random.sample(range(160, size * 8), 200)]:
        disk = whole.kill()
        disk.flip(name, bit)
        with pytest.raises(SidecarDamaged):
            read_sidecar(disk, name)
    for length in range(size):
        disk = whole.kill()
        disk.cut(name, length)
        with pytest.raises(SidecarDamaged):
            read_sidecar(disk, name)
