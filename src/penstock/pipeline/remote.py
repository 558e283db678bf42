"""The journal of a server on another machine, read over its API port: what `JournalReader` does for a directory.

Whatever is cut off is asked for again, after the last sequence that came. A server that is away is waited for, for a
while. Not here: the routes (`penstock.services.readers`), what Spark calls (`source`).
Read next: docs/pipeline.md, "Over the network".
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

from penstock.journal.damage import Damage
from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader
from penstock.journal.selection import EVERYTHING, EventSelection
from penstock.pipeline.errors import BadOption, PipelineError
from penstock.pipeline.token import read_token
from penstock.pipeline.web import (
    FIRST_PAUSE,
    LAST_PAUSE,
    TRY_AGAIN,
    ServerAddress,
    cause_of,
    check_token,
    seconds_of,
)

# How long a server that is away is waited for, in seconds, unless told otherwise.
RETRY_SECONDS = 300.0

OTHER_JOURNAL = "it is another journal, or an older copy of it; start with a new checkpoint"

# What the metadata of a batch says: see `penstock.services.readers.passage`.
_THROUGH = b"through"
_DAMAGE = b"damage"

# Sequences whose segments the next poll asks for as well: those that were asked for last.
_WATCHED = 4

# How much of an answer that is not ours (a proxy's page) a message repeats.
_MAX_ECHO = 300

QueryParameters = list[tuple[str, object]]


class RemoteError(PipelineError):
    """The server did not give something; the message names the server and says why."""


class TokenRefused(RemoteError):
    """The token is missing, unknown, has expired, or is for other entities."""


class EntitiesRefused(TokenRefused):
    """The token is good, and for other entities."""


class JournalUnreachable(RemoteError):
    """Nothing came of trying for as long as was allowed."""


@dataclass(frozen=True)
class RemoteJournalAddress:
    """Where a journal is read over the network. May be pickled, and shown: the token is left out."""

    server: str
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    retry_seconds: float = RETRY_SECONDS

    def __str__(self) -> str:
        return self.server

    def check(self) -> None:
        """Raises BadOption."""
        ServerAddress.parse(self.server)
        check_token(self.current_token())

    def current_token(self) -> str | None:
        """The file may have another one by now. Raises BadOption."""
        return read_token(self.token, self.token_file)


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A range of sequences, both included, and the segments that it began and ended in when it was planned."""

    first: int
    last: int
    salts: tuple[tuple[int, int], ...]


class RemoteJournal:
    """For one thread. `report` is called for each damaged place, the first time it is met.

    Methods wait for a server that is away or busy, and raise TokenRefused, JournalUnreachable, BadOption for another
    journal, Expired for what retention has dropped.
    """

    def __init__(
        self,
        address: RemoteJournalAddress,
        token: str | None = None,
        report: Callable[[Damage], None] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`token` is in place of the address's: tasks may not have the file that it is in."""
        self._connection: http.client.HTTPConnection | None = None
        self._address = address
        self._server = ServerAddress.parse(address.server)
        self._token = token
        self._report = report
        self._clock = clock
        self._sleep = sleep
        self._told: set[tuple[str, int, int | None]] = set()
        self._earliest: int | None = None
        self._salts: dict[int, int | None] = {}
        self._watched: list[int] = []

    # -- where the journal stands ---------------------------------------------------------------------------------

    def poll(self) -> int:
        """The last sequence that can be read; 0 when there is none."""
        answer = self._ask("", [("sequence", sequence) for sequence in self._watched])
        self._earliest = int(answer["earliest"])
        self._salts = {int(sequence): salt for sequence, salt in answer["salts"].items()}
        return int(answer["latest"])

    def earliest(self) -> int:
        """The first sequence that retention had left at the last poll."""
        if self._earliest is None:
            self.poll()
        assert self._earliest is not None
        return self._earliest

    def sees_all(self) -> bool:
        """Whether the token is for all entities."""
        return bool(self._ask("", []).get("all"))

    def check_table(self, name: str, entities: Sequence[str]) -> None:
        """Raises EntitiesRefused unless the token is for all entities that fit these patterns.

        With a token for some of them a table would have these of what is only in the journal, and all that is in the
        lake, which asks nobody.
        """
        try:
            self._ask("", [("all_of", pattern) for pattern in entities])
        except EntitiesRefused as refused:
            raise EntitiesRefused(
                f"the table {name} needs the token of a reader with entities = {json.dumps(entities)}, because it is "
                f"read from the lake as well; {refused}"
            ) from None

    def sequence_at(self, timestamp: int) -> int:
        """The first record, in the order of sequences, at or after a time; behind the last when there is none."""
        return int(self._ask("", [("time", timestamp)])["at"])

    def salt_at(self, sequence: int) -> int | None:
        """The salt of the segment that a sequence was in at the last poll; None when that was dropped."""
        self._watched = [sequence, *[one for one in self._watched if one != sequence]][:_WATCHED]
        if sequence not in self._salts:
            # One poll tells all that are watched, so that they are of one moment.
            self.poll()
        return self._salts[sequence]

    # -- reading --------------------------------------------------------------------------------------------------

    def plan(
        self, start: int | None, stop: int | None, parts: int, selection: EventSelection = EVERYTHING
    ) -> list[list[RemotePart]]:
        """Sequences from `start` to before `stop` in at most `parts` shares, to be read anywhere by `read_slices`.

        None: from the earliest that is left, and what there is now.
        """
        stop = self.poll() + 1 if stop is None else stop
        start = self.earliest() if start is None else start
        if start >= stop:
            return []
        asked: QueryParameters = [("first", start), ("last", stop - 1), ("parts", parts), *_parameters(selection)]
        found = self._ask("/plan", asked)["parts"]
        return [
            [RemotePart(part["first"], part["last"], tuple((one, salt) for one, salt in part["salts"]))]
            for part in found
        ]

    def read_slices(self, slices: Iterable[RemotePart], selection: EventSelection = EVERYTHING) -> Iterator[Any]:
        """Record batches of these parts, in order."""
        for part in slices:
            yield from self._read(part, selection)

    def read(self, start: int, stop: int, selection: EventSelection = EVERYTHING, *, rows: int = 0) -> Iterator[Any]:
        """Record batches from `start` to before `stop`, in order. The server decides how many `rows` a batch has."""
        for share in self.plan(start, stop, 1, selection):
            yield from self.read_slices(share, selection)

    def close(self) -> None:
        """The next request opens a connection again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        # Spark does not tell a source, or a task, when it is not needed any more.
        self.close()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _read(self, part: RemotePart, selection: EventSelection) -> Iterator[Any]:
        first = part.first
        trying = _Trying(self)
        salts = [("salt", f"{sequence}:{salt}") for sequence, salt in part.salts]
        while first <= part.last:
            asked: QueryParameters = [("first", first), ("last", part.last), *salts, *_parameters(selection)]
            response = self._open("/events", asked, trying)
            try:
                for batch, through in self._batches(response):
                    first = through + 1
                    trying = _Trying(self)
                    if batch.num_rows:
                        yield batch
            except GeneratorExit:
                # Whoever reads has enough: the rest of the answer would come before the next.
                self.close()
                raise
            except (OSError, http.client.HTTPException, pa.ArrowException) as error:
                self.close()
                problem = f"was cut off: {cause_of(error)}"
            else:
                problem = "was cut off"
            if first <= part.last:
                self.close()
                trying.again(problem)
            else:
                self._finish(response)

    def _batches(self, response: http.client.HTTPResponse) -> Iterator[tuple[Any, int]]:
        with pa.ipc.open_stream(pa.PythonFile(response, mode="r")) as stream:
            for batch, about in stream.iter_batches_with_custom_metadata():
                for damage in json.loads(bytes(about.get(_DAMAGE) or b"[]")):
                    self._tell(Damage(**damage))
                yield batch, int(about[_THROUGH])

    def _finish(self, response: http.client.HTTPResponse) -> None:
        """All of it came; the connection can be used again if its end has come as well."""
        try:
            response.read()
        except (OSError, http.client.HTTPException):
            self.close()
        if response.will_close:
            self.close()

    def _tell(self, damage: Damage) -> None:
        key = damage.file, damage.position, damage.first
        if key not in self._told and self._report is not None:
            self._told.add(key)
            self._report(damage)

    def _ask(self, path: str, parameters: QueryParameters) -> dict[str, Any]:
        trying = _Trying(self)
        while True:
            response = self._open(path, parameters, trying)
            try:
                text = response.read()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                trying.again(f"was cut off: {cause_of(error)}")
                continue
            if response.will_close:
                self.close()
            answer = _json(text)
            if answer is None:
                raise RemoteError(self.about(f"answered what is not JSON: {_said(text)}"))
            return answer

    def _open(self, path: str, parameters: QueryParameters, trying: _Trying) -> http.client.HTTPResponse:
        """An answer with status 200, whose body is to be read."""
        token = self._token if self._token is not None else self._address.current_token()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        target = f"{self._server.base}/api/journal{path}?{urlencode(parameters)}"
        while True:
            used_before = self._connection is not None
            try:
                if self._connection is None:
                    self._connection = self._server.connect()
                self._connection.request("GET", target, headers=headers)
                response = self._connection.getresponse()
                if response.status == http.client.OK:
                    return response
                text = response.read()
            except ssl.SSLCertVerificationError as error:
                self.close()
                reason = f"has a certificate that is not trusted here ({error.verify_message}); SSL_CERT_FILE can name"
                raise RemoteError(self.about(f"{reason} a file with its authority")) from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not used_before:
                    trying.again(f"cannot be reached: {cause_of(error)}")
                # Servers close connections that were idle: that is no reason to wait.
                continue
            if response.will_close:
                self.close()
            if response.status not in TRY_AGAIN:
                raise self._refused(response.status, text)
            trying.again(f"answered {response.status}: {_said(text)}", seconds_of(response.headers.get("Retry-After")))

    def _refused(self, status: int, text: bytes) -> Exception:
        said = _said(text)
        match status:
            case http.client.UNAUTHORIZED:
                return TokenRefused(self.about(f"refused the token: {said}"))
            case http.client.FORBIDDEN:
                return EntitiesRefused(self.about(f"refused the token: {said}"))
            case http.client.CONFLICT:
                return BadOption(self.about(f"refused: {said}: {OTHER_JOURNAL}"))
            case http.client.GONE:
                answer = _json(text) or {}
                return Expired(said, int(answer.get("earliest", 0)))
            case http.client.NOT_FOUND:
                return RemoteError(
                    self.about("does not serve its journal; [journal.readers] of its configuration does")
                )
            case _:
                return RemoteError(self.about(f"answered {status}: {said}"))

    def about(self, problem: str) -> str:
        return f"the server {self._server.text} {problem}"

    # What the tries need.

    def wait(self, begun: float, seconds: float, problem: str) -> None:
        if self.now() - begun + seconds > self._address.retry_seconds:
            tried = f"{problem} (tried for {self._address.retry_seconds:g} s)"
            raise JournalUnreachable(self.about(tried)) from None
        self._sleep(seconds)

    def now(self) -> float:
        return self._clock()


# Where a journal is: its directory, or the server that has it.
JournalPlace = Path | RemoteJournalAddress


def open_journal(place: JournalPlace, report: Callable[[Damage], None] | None = None) -> JournalReader | RemoteJournal:
    """For one thread."""
    if isinstance(place, Path):
        return JournalReader(place, report=report)
    return RemoteJournal(place, report=report)


class _Trying:
    """How long something has been tried, since it last made progress."""

    def __init__(self, journal: RemoteJournal) -> None:
        self._journal = journal
        self._begun = journal.now()
        self._pause = FIRST_PAUSE

    def again(self, problem: str, after: float = 0.0) -> None:
        """Wait a moment; raises JournalUnreachable if it has been long enough."""
        self._journal.wait(self._begun, min(max(self._pause, after), LAST_PAUSE), problem)
        self._pause = min(self._pause * 2, LAST_PAUSE)


def _parameters(selection: EventSelection) -> QueryParameters:
    found: QueryParameters = [("entity", entity) for entity in selection.entities]
    found += [("kind", kind) for kind in selection.kinds]
    if selection.since is not None:
        found.append(("since", selection.since))
    if selection.until is not None:
        found.append(("until", selection.until))
    return found


def _json(text: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _said(text: bytes) -> str:
    """The server's own words, or those of whoever stands in front of it."""
    answer = _json(text)
    if answer is not None and isinstance(answer.get("error"), str):
        return str(answer["error"])
    return text.decode("utf-8", "replace").strip()[:_MAX_ECHO] or "nothing"
