"""The journal's record as Spark sees it: the same columns, in Spark's types.

Not here: how records are read (`source`) or laid out in the lake (`penstock.history.layout`).
Read next: docs/journal.md, "A record".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.journal.record import SCHEMA as RECORD

_TYPES: dict[Any, Any] = {
    pa.int64(): LongType(),
    pa.utf8(): StringType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
}

# Derived, not repeated: a column added to the journal is a column here, or a KeyError at import.
EVENTS = StructType([StructField(field.name, _TYPES[field.type], field.nullable) for field in RECORD])
