"""kill -9 of a process that writes a real directory: whatever it was told is kept is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.journal.journal import Journal
from penstock.journal.reader import JournalReader

ROUNDS = 3
WRITER = """
import sys
from pathlib import Path
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.record import Columns

journal = Journal(Path(sys.argv[1]), JournalSettings(segment_bytes=30_000, interval_millis=1))
while True:
    columns = Columns()
    for number in range(5):
        columns.add(f"item{number}", 1, "update", "", "x" * 50)
    journal.append(columns, Policy.INTERVAL)
    receipt = journal.append(columns, Policy.ACK)
    receipt.done.result()
    print(receipt.first + 4, flush=True)
"""


def test_after_each_kill_everything_acknowledged_is_there_once_and_in_order(tmp_path: Path) -> None:
    acknowledged = 0
    for round_ in range(ROUNDS):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(40 + 25 * round_):
                acknowledged = int(process.stdout.readline())
            process.kill()
            lines = process.stdout.read().splitlines(keepends=True)
        whole = [int(line) for line in lines if line.endswith("\n")]
        acknowledged = max([acknowledged, *whole])
        journal = Journal(tmp_path)
        reader = JournalReader(tmp_path)
        batches = list(reader.read())
        sequences = [number for batch in batches for number in batch.column("sequence").to_pylist()]
        assert sequences == list(range(1, len(sequences) + 1))
        assert len(sequences) >= acknowledged
        assert (reader.damages, journal.recovery.damages) == ([], [])
        revisions = [
            revision
            for batch in batches
            for entity, revision in zip(
                batch.column("entity").to_pylist(), batch.column("revision").to_pylist(), strict=True
            )
            if entity == "item0"
        ]
        assert revisions == list(range(1, len(revisions) + 1))
        assert journal.revision("item0") == len(revisions)
        journal.close()
