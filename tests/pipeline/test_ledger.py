from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipeline.ledger import KEPT, BatchLedger, LedgerLost


def table(value: int) -> pa.Table:
    return pa.table({"value": [value]}).replace_schema_metadata({"note": str(value)})


def test_a_batch_begins_with_what_the_one_before_it_left(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path / "ledger")
    assert ledger.before(0) is None
    ledger.leave(0, table(10))
    found = BatchLedger(tmp_path / "ledger").before(1)
    assert found is not None
    assert found.to_pylist() == [{"value": 10}]
    assert found.schema.metadata == {b"note": b"10"}


def test_a_batch_that_is_run_again_begins_with_the_same(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    ledger.leave(0, table(10))
    ledger.leave(1, table(11))
    again = ledger.before(1)
    assert again is not None
    assert again.to_pylist() == [{"value": 10}]
    ledger.leave(1, table(12))
    after = ledger.before(2)
    assert after is not None
    assert after.to_pylist() == [{"value": 12}]


def test_old_files_go_away(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    for batch in range(25):
        ledger.leave(batch, table(batch))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{number}.arrow" for number in range(25 - KEPT, 25)]


@pytest.mark.parametrize("damage", ["missing", "cut", "empty"])
def test_a_ledger_that_is_not_whole_is_named_and_nothing_is_guessed(tmp_path: Path, damage: str) -> None:
    ledger = BatchLedger(tmp_path / "checkpoint" / "ledger")
    ledger.leave(4, table(4))
    path = tmp_path / "checkpoint" / "ledger" / "4.arrow"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20] if damage == "cut" else b"")
    with pytest.raises(LedgerLost, match=f"{path}.* is incomplete: delete it to start over"):
        ledger.before(5)
