"""A record of the journal as a record of a topic: the entity is the key, everything is in the value, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def topic_records(batch: Any) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a record batch of the journal."""
    for row in batch.to_pylist():
        timestamp = row["timestamp"]
        assert isinstance(timestamp, datetime)
        value = {
            **row,
            "timestamp": timestamp.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "value": _structured(row["value"]),
            "headers": _structured(row["headers"]),
        }
        yield row["entity"].encode(), _encode(value)


def _structured(text: str | None) -> object:
    """What is JSON stays JSON, and is not text within JSON."""
    if text is None:
        return None
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return msgspec.Raw(text.encode())
