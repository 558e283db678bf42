"""The way out of the pipeline: a client of the server that publishes a batch once, however often it has to try.

A request may be sent again at any time: the server knows the batches of a query by their numbers. Not here: what Spark
calls (`sink`, `publish`), how rows are made (`target`). Read next: docs/pipeline.md, "Exactly once".
"""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa

from penstock.log import get
from penstock.pipeline.errors import BadOption, PipelineError
from penstock.pipeline.web import (
    ANSWER_SECONDS,
    FIRST_PAUSE,
    LAST_PAUSE,
    TRY_AGAIN,
    ServerAddress,
    cause_of,
    check_token,
    seconds_of,
)

log = get(__name__)

ARROW = "application/vnd.apache.arrow.stream"
MODES = ("MERGE", "DISTINCT", "COMMAND")

# The timeout of a commit, which may be of very many rows.
COMMIT_SECONDS = 600.0
# A larger batch is staged in parts and committed as one: each is encoded, sent and kept by the server alone, and so
# bounds the memory of both.
PART_BYTES = 8 * 1024 * 1024
# What a server says of a body that is larger than it accepts: half of the rows may do.
_LARGE_BODY = "max_body_bytes"
# How much of an answer that is not ours (a proxy's page) a message repeats.
_MAX_ECHO = 300
# Whoever staged still has the rows, and stages them again after a restart of the server; not for ever.
STAGINGS = 5


class OutletError(PipelineError):
    """The server did not take something; the message names the server, the adapter, and says why."""


class BatchRefused(OutletError):
    """The server answered, and trying again would not help."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class StageLost(BatchRefused):
    """A commit named a stage that the server does not have: it was restarted in between. Stage the batch again."""


class ServerUnreachable(OutletError):
    """Nothing came of trying for as long as `retry_timeout` allows."""


@dataclass(frozen=True)
class Declared:
    """What an ingest adapter takes: modes by item pattern; `durable`: whether it takes batches."""

    items: Mapping[str, str]
    durable: bool


@dataclass(frozen=True)
class Delivery:
    """What became of a batch: `ignored` are DELETEs of missing keys; `repeated`: it had been committed before."""

    rows: int
    ignored: int = 0
    repeated: bool = False


class Outlet:
    """One ingest adapter of one server. Not for several threads at once; may be pickled.

    Every method tries again for ever, or for `retry_timeout` seconds, when the server is away or busy, and raises
    BatchRefused when it says no.
    """

    def __init__(
        self,
        server: str,
        adapter_set: str,
        adapter: str,
        token: str | None = None,
        *,
        retry_timeout: float | None = None,
        part_bytes: int = PART_BYTES,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._address = ServerAddress.parse(server)
        for name, value in (("adapterSet", adapter_set), ("adapter", adapter)):
            if not value:
                raise BadOption(f"{name} is missing; it names where the items are published")
        check_token(token)
        self.server = self._address.text
        self.adapter_set = adapter_set
        self.adapter = adapter
        self._base = f"{self._address.base}/api/ingest/{quote(adapter_set, safe='')}/{quote(adapter, safe='')}"
        self._token = token
        self._retry_timeout = retry_timeout
        self._part_bytes = part_bytes
        self._clock = clock
        self._sleep = sleep

    # -- what the server knows ------------------------------------------------------------------------------------

    def check(self) -> Declared:
        """What the adapter takes; raises BatchRefused if it is not there or the token is wrong."""
        answer = self._ask("GET", "")
        return Declared(dict(answer.get("items", {})), bool(answer.get("durable", False)))

    def last_batch(self, query: str) -> int | None:
        """The number of the query's last batch that was committed."""
        found = self._ask("GET", _query(query)).get("batch")
        return None if found is None else int(found)

    # -- batches --------------------------------------------------------------------------------------------------

    def put_batch(self, query: str, batch: int, table: pa.Table, mode: str) -> Delivery:
        """All rows of a batch, published together and in order; in several requests if there are very many."""
        return self.put_parts(query, batch, lambda: cut(table, self._part_bytes), mode)

    def put_parts(self, query: str, batch: int, parts: Callable[[], Iterable[pa.Table]], mode: str) -> Delivery:
        """The same for rows that are made part by part; `parts` may be called again, and gives the same then."""
        waiting = iter(parts())
        first = next(waiting)
        second = next(waiting, None)
        if second is None:
            try:
                path = f"{_batch(query, batch)}?{urlencode({'mode': mode})}"
                return _outcome(self._ask("PUT", path, encode(first), ARROW))
            except BatchRefused as refused:
                if not _may_be_cut(refused, first):
                    raise
        for left in range(STAGINGS, -1, -1):
            # Of its own, because stages of an attempt before may be there, with other rows.
            attempt = uuid.uuid4().hex[:12]
            names: list[str] = []
            for number, part in enumerate(parts()):
                staged, repeated = self.stage(query, batch, f"{attempt}-{number}", part)
                if repeated:
                    return Delivery(0, repeated=True)
                names += staged
            try:
                return self.commit(query, batch, names, mode)
            except StageLost:
                if not left:
                    raise
        raise AssertionError("unreachable")

    def stage(self, query: str, batch: int, stage: str, table: pa.Table) -> tuple[list[str], bool]:
        """Rows that are kept aside until the batch is committed: the name that they have, or several if the server
        accepts no body as large; and whether they are superfluous, because the batch was committed before.
        """
        path = f"{_batch(query, batch)}/stages/{quote(stage, safe='')}"
        try:
            answer = self._ask("PUT", path, encode(table), ARROW)
        except BatchRefused as refused:
            if not _may_be_cut(refused, table):
                raise
        else:
            return [stage], bool(answer.get("repeated", False))
        names: list[str] = []
        repeated = False
        for half, rows in zip("ab", halves(table), strict=True):
            staged, repeated = self.stage(query, batch, f"{stage}{half}", rows)
            names += staged
        return names, repeated

    def commit(self, query: str, batch: int, stages: Sequence[str], mode: str) -> Delivery:
        """Publish what these stages hold, in their order. Raises StageLost if the server has one of them no more."""
        body = json.dumps({"stages": list(stages)}).encode()
        path = f"{_batch(query, batch)}/commit?{urlencode({'mode': mode})}"
        try:
            return _outcome(self._ask("POST", path, body, "application/json", COMMIT_SECONDS))
        except BatchRefused as refused:
            if refused.status == http.client.CONFLICT:
                raise StageLost(str(refused), refused.status) from None
            raise

    def abandon(self, query: str, batch: int) -> None:
        """Drop the batch's stages."""
        self._ask("DELETE", _batch(query, batch))

    # -- one request ----------------------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str | None = None,
        patience: float = ANSWER_SECONDS,
    ) -> dict[str, Any]:
        """The answer's JSON object, for each of which it waits so many seconds."""
        headers = {"Accept": "application/json"}
        if kind is not None:
            headers["Content-Type"] = kind
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        begun = self._clock()
        pause = FIRST_PAUSE
        while True:
            wait = pause
            try:
                status, after, text = self._send(method, path, body, headers, patience)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                problem = f"cannot be reached: {cause_of(error)}"
            else:
                if status == http.client.OK:
                    return self._read(method, path, text)
                problem = f"answered {status}: {_said(text)}"
                if status not in TRY_AGAIN:
                    raise BatchRefused(self._about(method, path, problem), status)
                wait = min(max(pause, after), LAST_PAUSE)
            if self._retry_timeout is not None and self._clock() - begun + wait > self._retry_timeout:
                tried = f"{problem} (tried for {self._retry_timeout:g} s)"
                raise ServerUnreachable(self._about(method, path, tried)) from None
            if pause < LAST_PAUSE <= pause * 2:
                # Once per outage, and only when it is more than a restart.
                log.warning("request failed; retrying", server=self.server, adapter=self.adapter, problem=problem)
            self._sleep(wait)
            pause = min(pause * 2, LAST_PAUSE)

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], patience: float
    ) -> tuple[int, float, bytes]:
        """Status, Retry-After in seconds, body."""
        connection = self._connection
        if connection is None:
            connection = self._connection = self._address.connect()
        connection.timeout = patience
        if connection.sock is not None:
            connection.sock.settimeout(patience)
        cut = False
        try:
            connection.request(method, self._base + path, body, dict(headers))
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a large body answers without reading all of it: that answer may be there.
            cut = True
        response = connection.getresponse()
        text = response.read()
        if cut or response.will_close:
            self.close()
        return response.status, seconds_of(response.headers.get("Retry-After")), text

    def _read(self, method: str, path: str, text: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(text) if text.strip() else {}
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise BatchRefused(self._about(method, path, f"answered what is not JSON: {_said(text)}"))
        return answer

    def _about(self, method: str, path: str, problem: str) -> str:
        return (
            f"{self.server}, adapter {self.adapter} of set {self.adapter_set}: {problem} [{method} {self._base}{path}]"
        )

    # -- as an object ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The next request opens a connection again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Outlet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Spark does not tell the function that it calls with each batch when the query has ended.
        self.close()

    def __repr__(self) -> str:
        return f"Outlet({self.server!r}, {self.adapter_set!r}, {self.adapter!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}


def encode(table: pa.Table) -> bytes:
    """As an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def cut(table: pa.Table, most: int) -> Iterator[pa.Table]:
    """The same rows in parts of at most so many bytes, or of one row."""
    if table.nbytes <= most or table.num_rows <= 1:
        yield table
    else:
        for half in halves(table):
            yield from cut(half, most)


def halves(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    middle = table.num_rows // 2
    return table.slice(0, middle), table.slice(middle)


def _may_be_cut(refused: BatchRefused, table: pa.Table) -> bool:
    too_large = refused.status == http.client.REQUEST_ENTITY_TOO_LARGE and _LARGE_BODY in str(refused)
    return too_large and table.num_rows > 1


def _query(query: str) -> str:
    return f"/queries/{quote(query, safe='')}"


def _batch(query: str, batch: int) -> str:
    return f"{_query(query)}/batches/{batch}"


def _outcome(answer: Mapping[str, Any]) -> Delivery:
    return Delivery(int(answer.get("rows", 0)), int(answer.get("ignored", 0)), bool(answer.get("repeated", False)))


def _said(text: bytes) -> str:
    """The server's own words."""
    try:
        answer = json.loads(text)
        errors = answer["errors"]
        said = [f"row {one['row']}: {one['error']}" if "row" in one else str(one["error"]) for one in errors]
    except (ValueError, TypeError, KeyError):
        plain = text.decode("utf-8", "replace").strip()
        return plain[:_MAX_ECHO] or "nothing"
    return "; ".join(said) or "nothing"
