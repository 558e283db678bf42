from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipeline.errors import BadOption
from penstock.pipeline.ledger import KEPT, BatchLedger, LedgerFailed, LedgerLost
from tests.support.object_store import BUCKET, SECRET, ObjectStore


def table(value: int) -> pa.Table:
    return pa.table({"value": [value]}).replace_schema_metadata({"note": str(value)})


def test_a_batch_begins_with_what_the_one_before_it_left(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path, "ledger")
    assert ledger.before(0) is None
    ledger.leave(0, table(10))
    found = BatchLedger(tmp_path, "ledger").before(1)
    assert found is not None
    assert found.to_pylist() == [{"value": 10}]
    assert found.schema.metadata == {b"note": b"10"}


def test_a_batch_that_is_run_again_begins_with_the_same(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path.parent, tmp_path.name)
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
    ledger = BatchLedger(tmp_path.parent, tmp_path.name)
    for batch in range(25):
        ledger.leave(batch, table(batch))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{number}.arrow" for number in range(25 - KEPT, 25)]


@pytest.mark.parametrize("damage", ["missing", "cut", "empty"])
def test_a_ledger_that_is_not_whole_is_named_and_nothing_is_guessed(tmp_path: Path, damage: str) -> None:
    ledger = BatchLedger(tmp_path / "checkpoint", "ledger")
    ledger.leave(4, table(4))
    path = tmp_path / "checkpoint" / "ledger" / "4.arrow"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20] if damage == "cut" else b"")
    with pytest.raises(LedgerLost, match=f"{path}.* is incomplete: delete it to start over"):
        ledger.before(5)


# -- in an object store ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture
def bucket(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3a://{BUCKET}/{uuid.uuid4().hex}"


def test_a_ledger_at_a_url_is_kept_like_one_in_a_directory(bucket: str) -> None:
    ledger = BatchLedger(bucket, "windows")
    assert ledger.before(0) is None
    for batch in range(KEPT + 2):
        ledger.leave(batch, table(batch))
    ledger.leave(KEPT + 1, table(77))
    found = BatchLedger(bucket, "windows").before(KEPT + 2)
    assert found is not None
    assert found.to_pylist() == [{"value": 77}]
    assert found.schema.metadata == {b"note": b"77"}
    with pytest.raises(LedgerLost, match=f"^{bucket}/windows/1.arrow cannot be read .* {bucket} is incomplete: delete"):
        ledger.before(2)


@pytest.mark.parametrize("how", ["503", "lost"])
def test_a_store_that_fails_once_is_asked_again(store: ObjectStore, bucket: str, how: str) -> None:
    ledger = BatchLedger(bucket, "windows")
    ledger.leave(0, table(10))
    for method in ("POST", "PUT"):
        store.fail(method, how)
    ledger.leave(1, table(11))
    assert not store.failures
    found = ledger.before(2)
    assert found is not None
    assert found.to_pylist() == [{"value": 11}]


def test_a_store_that_is_away_is_named_without_its_credentials(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    ledger = BatchLedger(bucket, "windows")
    with pytest.raises(LedgerFailed, match=f"^{bucket}/windows/4.arrow cannot be read now: ") as read:
        ledger.before(5)
    with pytest.raises(
        LedgerFailed, match=f"^{bucket}/windows/5.arrow cannot be written: .*; the batch is run"
    ) as wrote:
        ledger.leave(5, table(5))
    for said in (str(read.value), str(wrote.value)):
        assert SECRET not in said
        assert "\n" not in said


def test_a_url_that_nothing_here_can_read_is_refused() -> None:
    with pytest.raises(BadOption, match=r"^pipeline.checkpoints is nope://bucket/x/windows; it cannot be used: "):
        BatchLedger("nope://bucket/x", "windows")


def test_a_url_of_a_file_is_a_directory(tmp_path: Path) -> None:
    BatchLedger(f"file://{tmp_path}/a%20b", "windows").leave(0, table(1))
    assert (tmp_path / "a b" / "windows" / "0.arrow").is_file()
