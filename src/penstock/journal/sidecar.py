"""Sidecars: small files beside a sealed segment, Arrow tables under one checksum, that appear whole or not at all.

Everything in them can be made again from segments; a damaged or missing one costs time, not data.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal.disk import Disk
from penstock.journal.segment import TEMPORARY_SUFFIX

_MAGIC = b"PNSTKSDC"
# Magic, how many tables, checksum of all that follows; then each table's length and bytes.
_HEAD = struct.Struct("<8sII")
_LENGTH = struct.Struct("<Q")
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class SidecarDamaged(Exception):
    """Never leaves the journal: the reader and recovery tell it as damage and do without."""


def write_sidecar(disk: Disk, name: str, tables: Sequence[Any]) -> None:
    """The caller syncs the directory. Raises OSError."""
    parts: list[bytes] = []
    for table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
            stream.write_table(table)
        data = sink.getvalue().to_pybytes()
        parts += [_LENGTH.pack(len(data)), data]
    body = b"".join(parts)
    replace_file(disk, name, [_HEAD.pack(_MAGIC, len(tables), crc32(body, len(tables))), body])


def replace_file(disk: Disk, name: str, parts: Sequence[bytes]) -> None:
    """Write and sync under another name, then rename: nobody ever sees half of it."""
    temporary = name + TEMPORARY_SUFFIX
    file = disk.create(temporary)
    try:
        file.write(0, parts)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, name)


def read_sidecar(disk: Disk, name: str) -> list[Any] | None:
    """The tables, or None when there is no such file. Raises SidecarDamaged."""
    try:
        file = disk.view(name)
    except FileNotFoundError:
        return None
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    if len(data) < _HEAD.size:
        raise SidecarDamaged(name)
    magic, count, checksum = _HEAD.unpack_from(data)
    if magic != _MAGIC or crc32(memoryview(data)[_HEAD.size :], count) != checksum:
        raise SidecarDamaged(name)
    tables = []
    position = _HEAD.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        tables.append(pa.ipc.open_stream(pa.py_buffer(data[position : position + length])).read_all())
        position += length
    return tables


def drop_rows(disk: Disk, name: str, number: int, entities: Any) -> None:
    """Leave some entities out of a table, by its number, that has a row for each. A file that cannot be read goes.

    `entities` is an Arrow array of names. The caller syncs the directory. Raises OSError.
    """
    try:
        tables = read_sidecar(disk, name)
    except SidecarDamaged:
        disk.remove(name)
        return
    if tables is None:
        return
    mask = pc.is_in(tables[number]["entity"], value_set=entities)
    if pc.any(mask).as_py():
        tables[number] = tables[number].filter(pc.invert(mask))
        write_sidecar(disk, name, tables)
