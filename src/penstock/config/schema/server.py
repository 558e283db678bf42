"""The server as a whole, its log and its demo: `[server]`, `[log]`, `[demo]`.

Not here: its ports (ports.py), what it keeps (journal.py).
Read next: docs/configuration.md.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.schema.values import Line, NodeId, ZeroOrMore, about


class ServerSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server as a whole."""

    name: Annotated[Line, about("Name announced to clients (SERVNAME) and in the `Server` header.")] = "Penstock"
    node: Annotated[NodeId, about("Short id of this server inside session ids; keep it the same across restarts.")] = (
        "penstock"
    )
    data_dir: Annotated[
        Line,
        Meta(extra={"allowed": "a directory path"}),
        about("Directory for everything kept on disk; created when missing."),
    ] = "./penstock-data"
    server_tokens: Annotated[
        Literal["full", "minimal"],
        about("The `Server` header: `full` gives name and version, `minimal` the name only."),
    ] = "full"
    stall_millis: Annotated[
        ZeroOrMore,
        about("An event loop that does not turn for this long is logged, with the adapter and its stack. 0 = never."),
    ] = 1000


class LogSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log, on standard error, one event a line."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], about("Events below this level are not written.")
    ] = "info"
    format: Annotated[Literal["text", "json"], about("`text` to be read by people, `json` for an object a line.")] = (
        "text"
    )
    max_repeats: Annotated[
        ZeroOrMore,
        about("The same warning or error is written this often in 10 s; more are counted in one line. 0 = unlimited."),
    ] = 20


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
