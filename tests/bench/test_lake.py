"""The benchmark of the lake in miniature: what is read is checked, whatever the times."""

from __future__ import annotations

from pathlib import Path

from bench.scenarios import lake


def test_random_ranges_are_read_before_and_after_compaction(tmp_path: Path) -> None:
    figures, failures = lake.measure(lake.Plan(events=4_000, entities=40, reads=20, warm_up=2), tmp_path)
    assert not failures
    assert [name.split(",")[0] for name in figures] == ["by revision", "by time", "plain Arrow"] * 2


def test_a_lake_that_lacks_events_is_noticed(tmp_path: Path) -> None:
    lake.build(tmp_path, lake.Plan(events=2_000, entities=40))
    reads = lake.Reads(tmp_path, lake.Plan(events=400_000, entities=40))
    for _ in range(20):
        reads.by_revision()
        reads.plain()
    assert reads.failures["another revision than the one asked for"] > 0
    assert reads.failures["plain Arrow finds too few"] > 0
