"""The server as a whole, its log and its demo: `[server]`, `[log]`, `[demo]`.

Not here: its ports (ports.py), what it keeps (journal.py).
Read next: docs/configuration.md.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from penstock.config.schema.values import Line, NodeId, OptionalLine, ZeroOrMore, about

# More than any machine has cores for.
Workers = Annotated[int, Meta(ge=0, le=256)]

Level = Literal["debug", "info", "warning", "error"]


class ServerSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server as a whole."""

    name: Annotated[Line, about("Name announced to clients (SERVNAME) and in the `Server` header.")] = "Penstock"
    node: Annotated[NodeId, about("Short id of this server inside session ids; keep it the same across restarts.")] = (
        "penstock"
    )
    foreign_sessions: Annotated[
        Literal["refused", "lost"],
        about(
            "How to answer requests for sessions of another `node`. `refused`: with errors 21 and 11, which say that "
            "requests reach the wrong server; clients give up. `lost`: with error 20; clients open new sessions, as "
            "they should if a balancer has sent them here because their node is gone."
        ),
    ] = "refused"
    data_dir: Annotated[
        Line,
        Meta(extra={"allowed": "a directory path"}),
        about("Directory for everything that is kept on disk; created if it does not exist."),
    ] = "./penstock-data"
    server_tokens: Annotated[
        Literal["full", "minimal"],
        about("The `Server` header: `full` gives name and version, `minimal` the name only."),
    ] = "full"
    workers: Annotated[
        Workers,
        about(
            "Number of processes that serve clients, on the same ports, in addition to one process for everything "
            "else. 0 = one process for all."
        ),
    ] = 0
    stall_millis: Annotated[
        ZeroOrMore,
        about(
            "If the event loop is blocked for this long, the log says so, with the adapter and its stack. 0 = never."
        ),
    ] = 1000


class LogSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log, one line for each event, on standard error, in a file, or both."""

    level: Annotated[Level, about("Events below this level are not logged.")] = "info"
    format: Annotated[Literal["text", "json"], about("`text` for people, `json` for one JSON object per line.")] = (
        "text"
    )
    levels: Annotated[
        Mapping[Line, Level],
        Meta(extra={"allowed": 'a table of categories in quotes and levels, such as { "penstock.doors" = "debug" }'}),
        about("Levels for single categories and all categories below them; the longest name that matches applies."),
    ] = {}
    max_repeats: Annotated[
        ZeroOrMore,
        about(
            "How often the same warning or error is logged within 10 s; further ones are only counted, in one "
            "line. 0 = unlimited."
        ),
    ] = 20
    stderr: Annotated[bool, about("Whether the log goes to standard error; `false` needs a `file`.")] = True
    file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file in an existing directory, or empty"}),
        about("File to which the log is written, too. SIGHUP opens it again if it was moved. Empty = none."),
    ] = ""
    file_bytes: Annotated[
        ZeroOrMore,
        about("Before the file grows beyond this size, it is renamed to `FILE.1` and a new one is started. 0 = never."),
    ] = 10_485_760
    file_count: Annotated[
        Annotated[int, Meta(ge=0, le=1000)],
        about("Number of older files to keep; `FILE.1` is the latest. 0 = none: a full file is emptied."),
    ] = 5

    def __post_init__(self) -> None:
        force_setattr(self, "levels", MappingProxyType(self.levels))

    def __hash__(self) -> int:
        fixed = [getattr(self, name) for name in self.__struct_fields__ if name != "levels"]
        return hash((*fixed, *self.levels.items()))


class DemoSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The demo adapter sets."""

    enabled: Annotated[
        bool,
        about("Whether the demo adapter sets are served. If you configure adapter sets, the default is `false`."),
    ] = True
    pace: Annotated[
        float,
        Meta(gt=0, le=1000),
        about("Speed of the demo feed: 2.0 updates twice as often, 0.5 half as often."),
    ] = 1.0
    traffic: Annotated[
        bool,
        about(
            "Whether the demo shows the controllers of TLEX domain `demo`, to everybody; needs `tlex.enabled`. "
            "`penstock demo` sets both, and simulates the controllers."
        ),
    ] = False
