"""Where the lake keeps what: its columns, its buckets, the names in its Delta log.

Known to whoever writes the lake (`penstock.pipeline.lake`) and whoever reads it (`reader`); needs neither Spark nor
deltalake. Read next: docs/pipeline.md, "The lake".
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa

from penstock.journal.record import SCHEMA as RECORD

# Enough to spread the work of reading and compacting, few enough that a batch is not a hundred small files.
BUCKETS = 16

# The partition column: its value is in the path and in the log, not in the files.
BUCKET = "bucket"

# The columns of the table. Those of its files are the journal's record, in the same order. A file holds
# entities of one bucket only, and its rows are sorted by entity and revision.
LAKE = RECORD.append(pa.field(BUCKET, pa.int32(), nullable=False))

# Application id, in the Delta log, of the number that says up to which sequence the lake is complete.
SEQUENCE = "penstock.sequence"

# The same for how often retention has dropped rows from it.
RETENTION = "penstock.retention"

# Names in the lake's folder that begin so are not the table's: a vacuum by whatever tool leaves them alone.
LOCK = "_lock"

# A second table: a row for each entity, as of the last compaction.
SUMMARY_FOLDER = "_summary"
SUMMARY = pa.schema(
    [
        pa.field("entity", pa.utf8(), nullable=False),
        pa.field("first_revision", pa.int64(), nullable=False),
        pa.field("last_revision", pa.int64(), nullable=False),
        pa.field("earliest", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("latest", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("events", pa.int64(), nullable=False),
    ]
)


def bucket_of(entity: str) -> int:
    """Where the lake keeps an entity. crc32, because Spark and Python compute it alike."""
    return zlib.crc32(entity.encode()) % BUCKETS


def has_lake(path: Path) -> bool:
    """Whether there is a table; a folder without a log is none."""
    log = path / "_delta_log"
    return log.is_dir() and any(log.glob("*.json"))
