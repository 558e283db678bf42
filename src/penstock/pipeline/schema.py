"""The journal's record and typed tables as Spark sees them: the same columns, in Spark's types.

Not here: how records are read (`source`) or laid out in the lake (`penstock.history.layout`).
Read next: docs/journal.md, "A record".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.history.typed_table import TypedTable
from penstock.journal.record import SCHEMA as RECORD

_TYPES: dict[Any, DataType] = {
    pa.int64(): LongType(),
    pa.utf8(): StringType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    pa.binary(): BinaryType(),
}

# Derived, not repeated: a column added to the journal is a column here, or a KeyError at import.
EVENTS = StructType([StructField(field.name, _TYPES[field.type], field.nullable) for field in RECORD])


def table_schema(table: TypedTable) -> StructType:
    """The columns of a typed table; all of them may be null, because Spark trusts what it is told."""
    return StructType([StructField(field.name, _spark_type(field.type)) for field in table.schema])


def _spark_type(arrow: Any) -> DataType:
    if pa.types.is_decimal(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    return _TYPES[arrow]
