"""The benchmark in miniature: it runs, and notices what is wrong. Times do not matter."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench.scenarios import journal


def test_everything_appended_is_read_in_every_way(tmp_path: Path) -> None:
    figures = journal.measure(journal.Plan(events=2_000, batch=100, commits=20, window=4, rounds=1), tmp_path)
    assert not figures.failures
    assert [cost.count for cost in figures.append.values()] == [2_000] * 3
    assert [cost.count for cost in figures.read.values()] == [2_000] * 3
    assert [cost.count for cost in figures.acknowledge.values()] == [20] * 4
    assert list(tmp_path.iterdir()) == []


def test_groups_are_those_of_the_run_whose_appends_are_shown(tmp_path: Path) -> None:
    figures = journal.measure(journal.Plan(events=100, batch=100, commits=20, window=4, rounds=3), tmp_path)
    for name, cost in figures.acknowledge.items():
        groups = figures.commit[name]
        assert (groups.wall, groups.cpu, groups.count) == (cost.wall, cost.cpu, cost.groups)


def test_what_is_missing_is_a_failure(tmp_path: Path) -> None:
    journal.append_journal(tmp_path, journal.events(10), 2)
    failures: Counter[str] = Counter()
    journal.read_journal(tmp_path, failures, 21)
    assert dict(failures) == {"20 events read of 21 appended": 1}
