"""Arrow bodies from clients: read completely or not at all, and never larger in memory than a body may be.

A small body can expand to a large table: by compressed buffers, dictionaries, buffers that several columns share,
columns of nulls. What the rows mean is in `draft`. Format: Arrow columnar format, "Encapsulated message format".
"""

from __future__ import annotations

import struct
from struct import unpack_from

import pyarrow

from penstock.adapters.arrow import check, text_bytes

# The column that names the item of a row.
ITEM = "item"

# In a compressed buffer, where its length would be: it is not compressed after all.
_PLAIN = -1

# Places in Arrow's flatbuffers: the fields of Message, DictionaryBatch and RecordBatch.
_HEADER = 2
_DICTIONARY_DATA = 1
_BUFFERS, _COMPRESSION = 2, 3


class BadArrowBody(Exception):
    """Not an Arrow stream of rows that can be events; the text says why."""


class LargeBody(Exception):
    """It would need more memory than `limit`; the text says so."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"The body has {size} bytes after decompression; max_body_bytes = {limit}")


def read_stream(body: bytes | bytearray, limit: int) -> list[pyarrow.RecordBatch]:
    """The batches of an Arrow stream, valid throughout. Raises BadArrowBody, LargeBody."""
    try:
        buffer = pyarrow.py_buffer(body)
        unpacked = sum(_unpacked_bytes(message) for message in pyarrow.ipc.MessageReader.open_stream(buffer))
        if unpacked > limit:
            raise LargeBody(unpacked, limit)
        batches = []
        size = 0
        with pyarrow.ipc.open_stream(buffer) as reader:
            check(reader.schema, ITEM)
            for batch in reader:
                # Offsets and text come from a client: nothing else checks them before they are used.
                batch.validate(full=True)
                size += text_bytes(batch)
                if size > limit:
                    raise LargeBody(size, limit)
                batches.append(batch)
        return batches
    except (pyarrow.ArrowException, ValueError, OSError, struct.error, IndexError) as error:
        raise BadArrowBody(str(error)) from error


def _unpacked_bytes(message: pyarrow.Message) -> int:
    """How large a message will be in memory, of which compressed buffers tell in their first eight bytes."""
    if message.type not in ("record batch", "dictionary"):
        return 0
    metadata, body = memoryview(message.metadata), memoryview(message.body)
    header = _indirect(metadata, _field(metadata, unpack_from("<I", metadata)[0], _HEADER))
    if message.type == "dictionary":
        header = _indirect(metadata, _field(metadata, header, _DICTIONARY_DATA))
    if _field(metadata, header, _COMPRESSION) == 0:
        return len(body)
    place = _field(metadata, header, _BUFFERS)
    if place == 0:
        return 0
    vector = _indirect(metadata, place)
    total = 0
    for number in range(unpack_from("<I", metadata, vector)[0]):
        position, length = unpack_from("<qq", metadata, vector + 4 + 16 * number)
        if length <= 0:
            continue
        stated = unpack_from("<q", body, position)[0]
        total += length if stated == _PLAIN else max(stated, 0)
    return total


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a field of a flatbuffers table stands; 0 if the table does not have it."""
    offsets = table - unpack_from("<i", data, table)[0]
    size = unpack_from("<H", data, offsets)[0]
    place = 4 + 2 * number
    if place >= size:
        return 0
    found = unpack_from("<H", data, offsets + place)[0]
    return table + int(found) if found else 0


def _indirect(data: memoryview, place: int) -> int:
    return place + int(unpack_from("<I", data, place)[0])
