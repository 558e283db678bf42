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
            "Requests for sessions of another `node`: `refused` with errors 21 and 11, after which clients give up, "
            "because their requests are led to the wrong server; `lost` with error 20, after which they open new "
            "sessions, because a balancer has led them here from a node that is gone."
        ),
    ] = "refused"
    data_dir: Annotated[
        Line,
        Meta(extra={"allowed": "a directory path"}),
        about("Directory for everything kept on disk; created when missing."),
    ] = "./penstock-data"
    server_tokens: Annotated[
        Literal["full", "minimal"],
        about("The `Server` header: `full` gives name and version, `minimal` the name only."),
    ] = "full"
    workers: Annotated[
        Workers,
        about(
            "Processes that clients are connected to, on the same ports, beside one for everything else. 0 = one"
            " process for all."
        ),
    ] = 0
    stall_millis: Annotated[
        ZeroOrMore,
        about("An event loop that does not turn for this long is logged, with the adapter and its stack. 0 = never."),
    ] = 1000


class LogSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log, one event a line, on standard error, in a file, or both."""

    level: Annotated[Level, about("Events below this level are not written.")] = "info"
    format: Annotated[Literal["text", "json"], about("`text` to be read by people, `json` for an object a line.")] = (
        "text"
    )
    levels: Annotated[
        Mapping[Line, Level],
        Meta(extra={"allowed": 'a table of categories in quotes and levels, such as { "penstock.doors" = "debug" }'}),
        about("Other levels for single categories, and for all below them; the longest name that fits counts."),
    ] = {}
    max_repeats: Annotated[
        ZeroOrMore,
        about("The same warning or error is written this often in 10 s; more are counted in one line. 0 = unlimited."),
    ] = 20
    stderr: Annotated[bool, about("Whether the log goes to standard error; `false` needs a `file`.")] = True
    file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file in a directory that exists, or empty"}),
        about("File that the log goes to as well. SIGHUP opens it again if it was moved. Empty = none."),
    ] = ""
    file_bytes: Annotated[
        ZeroOrMore,
        about("A file that would get larger is renamed to `FILE.1`, and a new one is begun. 0 = never."),
    ] = 10_485_760
    file_count: Annotated[
        Annotated[int, Meta(ge=0, le=1000)],
        about("Older files that are kept, `FILE.1` the latest. 0 = a file that is full is emptied."),
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
        about("Whether the demo adapter sets are served. With adapter sets of one's own the default is `false`."),
    ] = True
    pace: Annotated[
        float,
        Meta(gt=0, le=1000),
        about("Speed of the demo feed: 2.0 updates twice as often, 0.5 half as often."),
    ] = 1.0
