"""Every accepted payload as a record of the journal: of which controller, from whom, when it was sent and when it came.

The entity is `TLEX/TLEX/` and the controller's uuid, the kind is `payload`, the value a JSON object. Tokens are never
in it. Not here: how records reach the disk (`journal`). Read next: docs/tlex.md.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable

import msgspec

from penstock.exchange.ports import PayloadBatch
from penstock.journal.entity import entity_of
from penstock.journal.gatherer import Gatherer
from penstock.journal.journal import Policy
from penstock.journal.record import Columns
from penstock.wire.tlex.payloads import BODY_AT, BODY_HEAD_SIZE, IDENTIFIED_BODY_AT

KIND = "payload"
ADAPTER_SET = ADAPTER = "TLEX"

# Records that are appended without waiting for more.
MAX_PENDING = 4_096

_JSON = msgspec.json.Encoder()


class _Head(msgspec.Struct, frozen=True):
    """What all payloads of a batch have in common, as written in their values."""

    domain: str
    identifier: str
    publisher: str
    session: str


class JournalPayloadRecorder:
    """A `PayloadRecorder`: gathers for a few milliseconds, because one append of many records is cheaper."""

    def __init__(self, gatherer: Gatherer, policy: str, later: Callable[[Callable[[], None]], object]) -> None:
        """`later` calls a function a few milliseconds later."""
        self._gatherer = gatherer
        self._policy = Policy(policy)
        self._later = later
        self._deferred = False
        self._columns = Columns()

    def record(self, batches: list[PayloadBatch]) -> None:
        for batch in batches:
            self._add(batch)
        if len(self._columns) >= MAX_PENDING:
            self.flush()
        elif not self._deferred:
            self._deferred = True
            self._later(self._run)

    def flush(self) -> None:
        """Append what has gathered; what the journal refuses is counted there."""
        if self._columns:
            columns, self._columns = self._columns, Columns()
            try:
                self._gatherer.take(columns, self._policy)
            except Exception as error:
                # Whatever it is: payloads are passed on all the same.
                self._gatherer.lose(len(columns), f"{type(error).__name__}: {error}")

    def _run(self) -> None:
        self._deferred = False
        self.flush()

    def _add(self, batch: PayloadBatch) -> None:
        session, columns = batch.publisher, self._columns
        head = _Head(session.domain, batch.identifier, session.type.value, session.id)
        opening = _JSON.encode(head).decode()[:-1]
        at = BODY_AT if session.is_singleplex else IDENTIFIED_BODY_AT
        sent_at, data_at = at + 1, at + BODY_HEAD_SIZE
        count = len(batch.frames)
        columns.entities += [entity_of(ADAPTER_SET, ADAPTER, batch.uuid)] * count
        columns.timestamps += [batch.received * 1_000] * count
        columns.kinds += [KIND] * count
        columns.paths += [""] * count
        columns.headers += [None] * count
        columns.values += [
            f'{opening},"type":{frame[at]},"sent":{int.from_bytes(frame[sent_at:data_at], "big")},'
            f'"payload":"{b2a_base64(frame[data_at:], newline=False).decode()}"}}'
            for frame in batch.frames
        ]
