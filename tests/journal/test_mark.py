from __future__ import annotations

import os
from pathlib import Path

from penstock.journal.disk import DirectoryDisk
from penstock.journal.journal import Journal, Policy
from penstock.journal.mark import read_mark
from tests.journal.world import columns

WAIT = 20.0


def test_the_mark_says_what_is_committed_and_reading_it_leaves_no_file_open(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    done = journal.append(columns(3), Policy.ACK).done
    assert done is not None
    done.result(WAIT)
    journal.close()
    disk = DirectoryDisk(tmp_path)
    before = os.listdir("/proc/self/fd")
    marks = [read_mark(disk) for _ in range(5)]
    assert os.listdir("/proc/self/fd") == before
    assert [mark and mark.sequence for mark in marks] == [3] * 5
