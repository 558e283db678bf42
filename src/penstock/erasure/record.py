"""The record that stays of an erasure: who, when, how many events, and a hash by which an entity can be recognized.

A name may be that of a person, so it is not kept. Whoever has the name can ask whether it was erased, as after a backup
was put back; whoever has not can only guess, and each guess takes time and memory, because the hash is scrypt with a
salt of its own. Read next: docs/history.md, "Erasing".
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator

import msgspec

from penstock.journal.erasure_note import ErasureNote
from penstock.journal.record import Columns

# As of all that administrators do.
ENTITY = "admin"
KIND = "action"
ACTION = "erase"

_SALT_BYTES = 16
_HASH_BYTES = 32
_PREFIX = "scrypt"


class ErasureRecord(msgspec.Struct, frozen=True):
    """The value of a record. `id` is that of the command, which may have erased several entities."""

    action: str
    by: str
    entity: str
    events: int
    reference: str
    id: str


def records(note: ErasureNote, now: int) -> Columns:
    """One for each entity."""
    columns = Columns()
    for entity, events in note.events.items():
        value = ErasureRecord(ACTION, note.by, hashed(entity), events, note.reference, note.id)
        columns.add(ENTITY, now, KIND, "", msgspec.json.encode(value).decode())
    return columns


def erasures(values: Iterable[str | None]) -> Iterator[ErasureRecord | None]:
    """For each value of a record of entity `admin` the erasure it tells of; None for other actions."""
    for value in values:
        try:
            record = msgspec.json.decode(value or "null", type=ErasureRecord)
        except msgspec.ValidationError:
            yield None
        else:
            yield record if record.action == ACTION else None


def hashed(entity: str) -> str:
    salt = os.urandom(_SALT_BYTES)
    return f"{_PREFIX}:{salt.hex()}:{_hash(entity, salt)}"


def is_of(entity: str, kept: str) -> bool:
    """Whether a hash is that of an entity."""
    prefix, _, rest = kept.partition(":")
    salt, _, expected = rest.partition(":")
    return prefix == _PREFIX and hmac.compare_digest(_hash(entity, bytes.fromhex(salt)), expected)


def _hash(entity: str, salt: bytes) -> str:
    return hashlib.scrypt(entity.encode(), salt=salt, n=2**14, r=8, p=1, dklen=_HASH_BYTES).hex()
