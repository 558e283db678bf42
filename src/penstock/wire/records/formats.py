"""From the bytes of a key or value to what templates look into. Text and JSON are here; schemas are in registry.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from penstock.wire.records.record import PoisonRecord

# Those that need nothing else, and those that need a schema registry.
PLAIN = ("text", "json")
WITH_SCHEMA = ("avro", "protobuf")
FORMATS = PLAIN + WITH_SCHEMA

Decode = Callable[[bytes], object]


class Schemas(Protocol):
    """A schema registry, as far as decoding needs it."""

    def decode_avro(self, data: bytes) -> object: ...

    def decode_protobuf(self, data: bytes) -> object: ...


# Numbers with a fraction stay as they were written: 1.10 is not 1.1 for those who read prices.
_json = msgspec.json.Decoder(float_hook=str)


def decode_json(data: bytes) -> object:
    try:
        return _json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PoisonRecord(f"it is not JSON: {error}") from None


def decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PoisonRecord(f"it is not UTF-8: byte {data[error.start]:#04x} at {error.start}") from None


def decoder(name: str, schemas: Schemas | None) -> Decode:
    """Raises ValueError for a format that there is not, or that needs a registry."""
    if name == "text":
        return decode_text
    if name == "json":
        return decode_json
    if name not in WITH_SCHEMA:
        raise ValueError(f"expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if schemas is None:
        raise ValueError(f"{name} needs the address of a schema registry: set registry")
    return schemas.decode_avro if name == "avro" else schemas.decode_protobuf
