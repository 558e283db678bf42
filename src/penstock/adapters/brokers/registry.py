"""A schema registry with the usual interface (`/schemas/ids/N`), and decoding with its schemas: Avro and Protobuf.

Data begins with a zero byte and the number of its schema; schemas never change, so each is fetched once. It is asked on
the thread that reads records: they wait for their schema. Importing the decoders needs the extra `kafka`.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import ssl
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.log import get
from penstock.wire.records.record import PoisonRecord

log = get(__name__)

# Seconds for an answer.
TIMEOUT = 10.0

# Seconds after which a registry that failed is asked again. Until then records that need it are poison.
RETRY = 5.0

# Bytes of an answer that are read, and how deep schemas may refer to others.
MAX_ANSWER = 4 * 1024 * 1024
MAX_DEPTH = 16

_HEAD = struct.Struct(">bI")

# What a decoder of one schema is: from the bytes behind the head to what templates look into.
DecodeSchema = Callable[[bytes], object]


class RegistryProblem(Exception):
    """It does not answer, or not as expected; the text says what is wrong, without secrets."""


class SchemaRegistry:
    """Used by one thread at a time."""

    def __init__(
        self, address: str, user: str | None = None, password: str | None = None, ca_file: str | Path | None = None
    ) -> None:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"registry = {_without_password(address)!r}: expected an address such as http://registry:8081"
            )
        if parts.username or parts.password:
            raise ValueError("registry has a user in it: expected registry_user and registry_password instead")
        self._address = address.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user is not None:
            credentials = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"
        self._context = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        self._readers: dict[tuple[str, int], DecodeSchema] = {}
        # Schemas that cannot be used: when that was found, and why.
        self._failures: dict[tuple[str, int], tuple[float, str]] = {}

    # -- decoding -------------------------------------------------------------------------------------------------

    def decode_avro(self, data: bytes) -> object:
        return self._decode("avro", data, self._avro_reader)

    def decode_protobuf(self, data: bytes) -> object:
        return self._decode("protobuf", data, self._protobuf_reader)

    def _decode(self, kind: str, data: bytes, make: Callable[[int], DecodeSchema]) -> object:
        if len(data) < _HEAD.size or data[0] != 0:
            raise PoisonRecord("it does not begin with a zero byte and the number of a schema")
        number: int = _HEAD.unpack_from(data)[1]
        reader = self._readers.get((kind, number))
        if reader is None:
            reader = self._readers[kind, number] = self._made(kind, number, make)
        try:
            return reader(data[_HEAD.size :])
        except PoisonRecord:
            raise
        except Exception as error:
            # Decoders raise whatever damaged bytes lead them to: EOFError, IndexError, UnicodeDecodeError, DecodeError.
            raise PoisonRecord(f"it does not fit schema {number}: {type(error).__name__} {error}"[:200]) from None

    def _made(self, kind: str, number: int, make: Callable[[int], DecodeSchema]) -> DecodeSchema:
        failed = self._failures.get((kind, number))
        now = time.monotonic()
        if failed is not None and now < failed[0] + RETRY:
            raise PoisonRecord(failed[1])
        try:
            reader = make(number)
        except RegistryProblem as problem:
            reason = f"schema {number}: {problem}"
            self._failures[kind, number] = now, reason
            raise PoisonRecord(reason) from None
        self._failures.pop((kind, number), None)
        return reader

    # -- Avro -----------------------------------------------------------------------------------------------------

    def _avro_reader(self, number: int) -> DecodeSchema:
        import fastavro

        found = self._schema(f"/schemas/ids/{number}", "AVRO")
        named: dict[str, Any] = {}
        try:
            for reference in self._references(found, 0):
                fastavro.parse_schema(json.loads(reference["schema"]), named_schemas=named)
            schema = fastavro.parse_schema(json.loads(found["schema"]), named_schemas=named)
        except (ValueError, KeyError, fastavro.schema.SchemaParseException) as error:
            raise RegistryProblem(f"it is not a schema of Avro: {type(error).__name__} {error}"[:200]) from None

        def read(data: bytes) -> object:
            return fastavro.schemaless_reader(io.BytesIO(data), schema, None)

        return read

    # -- Protobuf -------------------------------------------------------------------------------------------------

    def _protobuf_reader(self, number: int) -> DecodeSchema:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

        found = self._schema(f"/schemas/ids/{number}?format=serialized", "PROTOBUF")
        pool = descriptor_pool.DescriptorPool()
        try:
            for known in _well_known():
                pool.Add(known)
            for reference in self._references(found, 0, "?format=serialized"):
                pool.Add(_file_descriptor(descriptor_pb2, reference, str(reference["name"])))
            proto = _file_descriptor(descriptor_pb2, found, f"schema-{number}.proto")
            pool.Add(proto)
            file = pool.FindFileByName(proto.name)
        except (ValueError, KeyError, TypeError) as error:
            raise RegistryProblem(f"it is not a schema of Protobuf: {type(error).__name__} {error}"[:200]) from None
        messages = list(file.message_types_by_name.values())

        def read(data: bytes) -> object:
            path, rest = _message_path(data)
            kinds, kind = messages, None
            for index in path:
                kind = kinds[index]
                kinds = list(kind.nested_types)
            assert kind is not None
            message = message_factory.GetMessageClass(kind)()
            message.ParseFromString(rest)
            return json_format.MessageToDict(
                message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )

        return read

    # -- the registry ---------------------------------------------------------------------------------------------

    def _references(self, found: dict[str, Any], depth: int, suffix: str = "") -> list[dict[str, Any]]:
        """Those that the schema needs, each behind what it needs itself."""
        if depth > MAX_DEPTH:
            raise RegistryProblem(f"its references are more than {MAX_DEPTH} deep")
        needed = []
        for reference in found.get("references", ()):
            try:
                subject, version, name = reference["subject"], int(reference["version"]), reference["name"]
            except (KeyError, TypeError, ValueError):
                raise RegistryProblem("a reference without subject, version and name") from None
            quoted = urllib.parse.quote(str(subject), safe="")
            other = self._get(f"/subjects/{quoted}/versions/{version}{suffix}")
            needed += self._references(other, depth + 1, suffix)
            needed.append({**other, "name": name})
        return needed

    def _schema(self, path: str, kind: str) -> dict[str, Any]:
        found = self._get(path)
        is_a = found.get("schemaType", "AVRO")
        if is_a != kind:
            raise RegistryProblem(f"it is a schema of {is_a}, not of {kind}")
        if not isinstance(found.get("schema"), str):
            raise RegistryProblem("the registry's answer has no schema")
        return found

    def _get(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._address}{path}", headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=self._context) as answer:
                found = json.loads(answer.read(MAX_ANSWER))
        except urllib.error.HTTPError as error:
            error.close()
            raise RegistryProblem(f"the registry answered {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise RegistryProblem(f"the registry does not answer: {reason}") from None
        except ValueError:
            raise RegistryProblem("the registry's answer is not JSON") from None
        if not isinstance(found, dict):
            raise RegistryProblem("the registry's answer is not an object")
        return found


def _without_password(address: str) -> str:
    before, at, after = address.rpartition("@")
    return f"{before.split('://')[0]}://***@{after}" if at else address


def _file_descriptor(pb2: Any, found: dict[str, Any], name: str) -> Any:
    """The registry has it as the compiler made it, in Base64; it is known here by the name that imports use."""
    proto = pb2.FileDescriptorProto.FromString(base64.b64decode(found["schema"], validate=True))
    proto.name = name
    return proto


def _well_known() -> list[Any]:
    """Files that come with Protobuf and that schemas import by name."""
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    known = []
    for module in (
        descriptor_pb2,
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    ):
        proto = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(proto)
        known.append(proto)
    return known


def _message_path(data: bytes) -> tuple[list[int], bytes]:
    """Which message of the file it is, as indexes of nested ones, and the message: [0] is written as a single zero."""
    count, at = _zigzag(data, 0)
    if count == 0:
        return [0], data[at:]
    if not 0 < count <= MAX_DEPTH:
        raise PoisonRecord(f"it names a message {count} levels deep; expected at most {MAX_DEPTH}")
    path = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        if index < 0:
            raise PoisonRecord(f"it names message {index} of its schema")
        path.append(index)
    return path, data[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise PoisonRecord("the indexes of its message do not end")
