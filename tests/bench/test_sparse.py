"""The benchmark of sparse things in miniature: what is read is checked, whatever the times."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench.scenarios import sparse


def test_all_events_of_sparse_things_are_found_in_both_kinds_of_segments(tmp_path: Path) -> None:
    failures: Counter[str] = Counter()
    size, active, sealed = sparse.compare(sparse.Plan(events=2_000, reads=2), tmp_path, failures)
    assert not failures
    assert size > 1_000_000
    assert min(active.streams, sealed.streams) > 0
    assert list((tmp_path / "active").glob("*.blocks"))
    assert not list((tmp_path / "sealed").glob("*.blocks"))


def test_what_is_missing_is_a_failure(tmp_path: Path) -> None:
    failures: Counter[str] = Counter()
    sparse.build(tmp_path, sparse.Plan(events=100), sealed=False)
    sparse.measure(tmp_path, sparse.Plan(events=100, reads=1), failures)
    assert failures["a stream with too few events"] == 1
