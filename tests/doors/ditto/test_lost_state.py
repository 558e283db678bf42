"""A server whose saved state of things is lost comes back with all of them, from the lake and the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.doors.ditto.saved_state import NAME, PREVIOUS
from penstock.journal.disk import DirectoryDisk
from penstock.journal.reader import JournalReader
from penstock.journal.recovery import bases
from penstock.journal.retention import Retention, drop_expired
from penstock.pipeline.files import Written, write_task
from penstock.pipeline.lake import Lake
from penstock.services.errors import StartError
from tests.doors.ditto.site import Site

CHANGES = 40


def lose_state(data: Path) -> None:
    for name in (NAME, PREVIOUS):
        (data / "journal" / name).unlink(missing_ok=True)


def drop(data: Path, lake_sequence: int) -> None:
    """What retention does, to all but the segment that is written last."""
    disk = DirectoryDisk(data / "journal")
    assert drop_expired(disk, Retention(max_bytes=0), lake_sequence, 0, bases(disk)[-1])


def move(data: Path) -> int:
    """What the job `history` does."""
    journal, lake = data / "journal", Lake(data / "lake")
    batches = write_task(str(lake.root), 0)(JournalReader(journal).read())
    lake.adopt(journal, 0, [Written(**row) for batch in batches for row in batch.to_pylist()])
    return lake.sequence()


def changed(site: Site, first: int) -> None:
    alice = site.of("alice")
    for number in range(first, first + CHANGES):
        assert alice.put("/things/ns:thing/attributes/n", json=number).status_code in (201, 204)


def test_things_come_back_from_the_lake(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Site(tmp_path) as site:
        assert site.of("alice").put("/things/ns:thing", json={"attributes": {"kept": True}}).status_code == 201
        assert site.of("alice").put("/things/ns:gone", json={}).status_code == 201
        assert site.of("alice").delete("/things/ns:gone").status_code == 204
        changed(site, 0)
    # Twice: a start begins a segment, and one that nothing was written to is the next one's.
    with Site(tmp_path) as site:
        changed(site, CHANGES)
    drop(data, move(data))
    lose_state(data)
    with Site(tmp_path) as site:
        alice = site.of("alice")
        found = alice.get("/things/ns:thing", params={"fields": "attributes,_revision"}).json()
        assert found == {"attributes": {"kept": True, "n": 2 * CHANGES - 1}, "_revision": 2 * CHANGES + 1}
        assert alice.get("/things/ns:gone").status_code == 404
        for revision in (1, 2, CHANGES, 2 * CHANGES + 1):
            past = alice.get("/things/ns:thing/attributes", params={"at-historical-revision": revision}).json()
            assert past == {"kept": True, **({"n": revision - 2} if revision > 1 else {})}
        assert alice.put("/things/ns:thing/attributes/n", json=-1).status_code == 204
        assert alice.get("/things/ns:thing").headers["etag"] == f'"rev:{2 * CHANGES + 2}"'


def test_without_the_lake_the_server_says_what_is_missing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Site(tmp_path) as site:
        assert site.of("alice").put("/things/ns:thing", json={}).status_code == 201
    with Site(tmp_path) as site:
        changed(site, 0)
    drop(data, 1000)
    lose_state(data)
    with pytest.raises(StartError, match="the saved state of things is too old"), Site(tmp_path):
        pass
