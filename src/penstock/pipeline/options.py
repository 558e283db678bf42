"""What a caller may write after `format("penstock")` to read: names, values, defaults; checked before anything is read.

Imports no pyspark. Not here: what is done with them (`source`), the options for writing (`target`).
Read next: docs/pipeline.md, "The source".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.config import ConfigError, load
from penstock.history.catalog import Catalog, TableError
from penstock.history.lake_root import FOLDER, LakeRoot, lake_of, root_of
from penstock.history.lake_url import BadLake, LakeUrl
from penstock.history.typed_table import TypedTable
from penstock.journal.segment import SEGMENT_SUFFIX
from penstock.journal.selection import EVERYTHING, EventSelection
from penstock.pipeline.errors import BadOption
from penstock.pipeline.place import Place
from penstock.pipeline.remote import RETRY_SECONDS, RemoteJournal, RemoteJournalAddress

# A micro-batch has at most this many unless told otherwise: bounds the memory of a query that is behind.
MAX_EVENTS = 500_000
# Spark counts rows in 64 bits, tasks in 32; nobody means more than this.
MOST_EVENTS = 1 << 53
MOST_PARTITIONS = 10_000

# As people write them; Spark hands them over without regard to case.
NAMES = (
    "path",
    "server",
    "token",
    "tokenFile",
    "retryTimeoutSeconds",
    "startingOffset",
    "endingOffset",
    "maxEventsPerTrigger",
    "partitions",
    "entities",
    "kinds",
    "onExpired",
    "pushFilters",
    "damageReports",
    "table",
    "config",
    "lake",
    "lakeSecrets",
)
_SPELLING = {name.lower(): name for name in NAMES}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SourceOptions:
    """The options, each with a value that is allowed."""

    # The journal's directory. Means nothing if the journal is read over the network instead.
    path: Path
    remote: RemoteJournalAddress | None = None
    # "earliest", "latest", a sequence number, or a time with its zone. A query with a checkpoint does not ask.
    starting: str = "earliest"
    # Batch reads only: "latest", a sequence number (inclusive) or a time (exclusive).
    ending: str = "latest"
    # Streams only: a micro-batch has at most this many; 0: all there is.
    max_events: int = MAX_EVENTS
    # At most this many tasks read a batch.
    partitions: int = 2
    selection: EventSelection = EVERYTHING
    # What retention dropped before it was read: "stop" the query, or go on from the "earliest" left, with a warning.
    on_expired: str = "stop"
    # Batch reads only: let the journal decide a DataFrame's own filters. Off, because Spark 4.3 keeps what was planned
    # with them and reads the same when the same DataFrame is used again without: rows would be missing, silently.
    push_filters: bool = False
    # Where tasks put a note about each damaged place they meet, beside what they say on standard error.
    reports: Path | None = None
    # A typed table in place of the journal's own columns.
    table: TypedTable | None = None
    # With a table: where its lake is; None: beside the journal, if there is one.
    lake_root: LakeRoot | None = None

    @property
    def lake(self) -> LakeRoot:
        return self.path.parent / FOLDER if self.lake_root is None else self.lake_root

    @property
    def place(self) -> str:
        """Where the journal is, to be read after the word "journal"."""
        return f"of {self.remote.server}" if self.remote is not None else f"in {self.path}"


def parse(options: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """Raises BadOption."""
    given: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() not in _SPELLING:
            raise BadOption(f"option {name} is not known; allowed: {', '.join(NAMES)}")
        given[_SPELLING[name.lower()]] = value
    if stream and "endingOffset" in given:
        raise BadOption(f"option endingOffset is {given['endingOffset']!r}; a stream has no end, only spark.read has")
    starting = given.get("startingOffset", "earliest")
    ending = given.get("endingOffset", "latest")
    check_position("startingOffset", starting, ("earliest", "latest"))
    check_position("endingOffset", ending, ("latest",))
    on_expired = given.get("onExpired", "stop")
    if on_expired not in ("stop", "earliest"):
        raise BadOption(f"option onExpired is {on_expired!r}; allowed: stop and earliest")
    push_filters = given.get("pushFilters", "false").lower()
    if push_filters not in ("true", "false"):
        raise BadOption(f"option pushFilters is {given['pushFilters']!r}; allowed: true and false")
    remote = _remote(given)
    lake = _lake(given)
    if given.get("table") and remote is not None and not isinstance(lake, LakeUrl):
        raise BadOption(
            "options table and server are both given; a table has what is in the lake, so option lake, a URL, or path "
            "is needed"
        )
    table = _table(given, remote)
    return SourceOptions(
        _journal(given.get("path", "")) if remote is None else Path(),
        remote,
        starting=starting,
        ending=ending,
        max_events=_number("maxEventsPerTrigger", given.get("maxEventsPerTrigger", str(MAX_EVENTS)), 0, MOST_EVENTS),
        partitions=_number("partitions", given.get("partitions", "2"), 1, MOST_PARTITIONS),
        selection=EventSelection(
            _words("entities", given.get("entities", "")), _words("kinds", given.get("kinds", ""))
        ),
        on_expired=on_expired,
        push_filters=push_filters == "true",
        reports=Path(given["damageReports"]) if given.get("damageReports") else None,
        table=table,
        lake_root=lake,
    )


def journal_options(place: Place) -> dict[str, str]:
    """Those that say where the journal is. Raises BadOption."""
    remote = place.remote_journal
    if remote is None:
        return {"path": str(place.journal)}
    given = {"server": remote.server}
    if remote.token is not None:
        given["token"] = remote.token
    if remote.token_file is not None:
        given["tokenFile"] = str(remote.token_file)
    return given


def lake_options(root: LakeRoot) -> dict[str, str]:
    """Those that say where a table's lake is; the name of the second lets Spark hide it wherever it shows options."""
    if not isinstance(root, LakeUrl):
        return {"lake": str(root)}
    return {"lake": str(root), "lakeSecrets": json.dumps(root.sent())}


def _lake(given: Mapping[str, str]) -> LakeRoot | None:
    """None: not said. Raises BadOption."""
    for name in ("lake", "lakeSecrets"):
        if name in given and "table" not in given:
            raise BadOption(f"option {name} is for option table, which is missing")
    if "lake" not in given:
        if "lakeSecrets" in given:
            raise BadOption("option lakeSecrets is given without lake, the URL that it is for")
        try:
            return _configured(given) if given.get("table") else None
        except ConfigError as error:
            raise BadOption(f"option config is {given['config']}: {error}") from None
    try:
        secrets = json.loads(given.get("lakeSecrets", "{}"))
        return root_of(given["lake"], {str(name): str(value) for name, value in dict(secrets).items()})
    except BadLake as error:
        raise BadOption(f"option lake: {error}") from None
    except (ValueError, TypeError):
        # Without the value, which may have secrets.
        raise BadOption("option lakeSecrets is not a JSON object") from None


def _configured(given: Mapping[str, str]) -> LakeRoot | None:
    """Where the configuration has the lake, if that is not beside the journal. Raises ConfigError."""
    config = load(Path(given["config"]), {}).config if given.get("config") else None
    return None if config is None or not config.lake.url else lake_of(config)


def _table(given: Mapping[str, str], remote: RemoteJournalAddress | None) -> TypedTable | None:
    """By its name, or, from one process to another, as JSON. Raises BadOption."""
    asked = given.get("table", "")
    if not asked:
        if "config" in given:
            raise BadOption(f"option config is {given['config']!r}; it is for option table, which is missing")
        return None
    for name in ("entities", "kinds", "pushFilters"):
        if name in given:
            raise BadOption(f"option {name} is {given[name]!r}; a table has its own, so leave it out")
    if asked.startswith("{"):
        try:
            return TypedTable.decoded(asked)
        except msgspec.DecodeError as error:
            raise BadOption(f"option table is {asked[:60]!r}, which is not a table: {error}") from None
    journal = _journal(given.get("path", "")) if remote is None else Path("journal")
    try:
        config = load(Path(given["config"]) if given.get("config") else None, {}).config
        return Catalog(config, journal.parent, None if remote is None else RemoteJournal(remote)).table(asked)
    except (ConfigError, TableError) as error:
        raise BadOption(f"option table is {asked}: {error}") from None


def micros_of(name: str, value: str) -> int:
    """A time as people write it, in microseconds since 1970; raises BadOption."""
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        raise BadOption(
            f"option {name} is {value!r}; allowed: {'earliest, ' if name == 'startingOffset' else ''}latest, a "
            "sequence number, or a time such as 2026-01-31T12:00:00+00:00"
        ) from None
    if when.tzinfo is None:
        raise BadOption(f"option {name} is {value!r}; a time needs its zone, such as +00:00 or Z")
    return micros(when)


def micros(when: datetime) -> int:
    """Exact, where `timestamp()` would round. `when` knows its zone."""
    delta = when - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _remote(given: Mapping[str, str]) -> RemoteJournalAddress | None:
    """The server whose journal is read over the network; None if a directory is read."""
    if "server" not in given:
        for name in ("token", "tokenFile", "retryTimeoutSeconds"):
            if name in given:
                raise BadOption(
                    f"option {name} is given without server, the address of the server whose journal is read"
                )
        return None
    if given.get("path"):
        raise BadOption(f"options path and server are both given, {given['path']} and {given['server']}; expected one")
    address = RemoteJournalAddress(
        given["server"],
        given.get("token"),
        Path(given["tokenFile"]) if "tokenFile" in given else None,
        _number("retryTimeoutSeconds", given.get("retryTimeoutSeconds", f"{RETRY_SECONDS:.0f}"), 0, 86_400),
    )
    address.check()
    return address


def _journal(given: str) -> Path:
    if not given:
        raise BadOption(
            "option path is missing; it names the journal's directory, as in load('data/journal'), or server the "
            "address of a server"
        )
    path = Path(given)
    if given.startswith("file:"):
        path = Path(unquote(urlsplit(given).path))
    if not path.is_dir():
        raise BadOption(f"option path is {given}; there is no such directory")
    if not any(path.glob(f"*{SEGMENT_SUFFIX}")):
        raise BadOption(f"option path is {given}; the directory has no journal: no file is named *{SEGMENT_SUFFIX}")
    return path


def check_position(name: str, value: str, words: tuple[str, ...]) -> None:
    if value in words:
        return
    if not value.isdecimal():
        micros_of(name, value)
    elif not 1 <= int(value) <= MOST_EVENTS:
        raise BadOption(f"option {name} is {value}; sequence numbers begin at 1 and stay below {MOST_EVENTS}")


def _number(name: str, value: str, least: int, most: int) -> int:
    if not value.isdecimal() or not least <= int(value) <= most:
        raise BadOption(f"option {name} is {value!r}; it must be a whole number from {least} to {most}")
    return int(value)


def _words(name: str, value: str) -> tuple[str, ...]:
    """Separated by commas; a JSON array of strings where a name has a comma itself."""
    if not value.lstrip().startswith("["):
        return tuple(word for word in (part.strip() for part in value.split(",")) if word)
    try:
        words = json.loads(value)
    except ValueError as error:
        raise BadOption(f"option {name} is {value!r}; it begins like a JSON array, but is not one: {error}") from None
    if not all(isinstance(word, str) and word for word in words):
        raise BadOption(f"option {name} is {value!r}; a JSON array there must hold strings that are not empty")
    return tuple(words)
