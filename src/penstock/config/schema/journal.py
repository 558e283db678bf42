"""The journal as a whole: `[journal]`, and who may read it over the network: `[journal.readers.NAME]`.

Not here: which items are journaled (adapters.py), the lake, which the pipeline writes (pipeline.py).
Read next: docs/journal.md.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from penstock.config.schema.values import LARGEST, SECRET, Line, OptionalLine, Positive, ZeroOrMore, about


class ReaderSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that may read the journal at the API port, `/api/journal`, with a token of its own."""

    token: Annotated[
        OptionalLine, SECRET, about("Its token, of at least 16 characters; empty = those in `token_file`.")
    ] = ""
    token_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file, or empty"}),
        about("File with a token in each line; `#` begins a comment. It is read again when it has changed."),
    ] = ""
    entities: Annotated[
        tuple[Line, ...],
        Meta(extra={"allowed": 'a list of patterns such as ["PLANT/*"], or ["*"] for all entities'}),
        about("The entities that it may read, `*` for any characters and `?` for one. It sees no others."),
    ]
    expires: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a time with its zone such as "2026-12-31T00:00:00Z", or empty'}),
        about("When its tokens become invalid; empty = never."),
    ] = ""


class OutletSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic of Kafka that gets what is journaled, each event once. Needs the extra `kafka`."""

    servers: Annotated[
        Line,
        Meta(extra={"allowed": 'brokers such as "kafka1:9092,kafka2:9092"'}),
        about("The brokers, `host:port`, separated by commas."),
    ]
    topic: Annotated[Line, about("The topic. It is not created by the server.")]
    entities: Annotated[
        tuple[Line, ...],
        Meta(extra={"allowed": 'a list of patterns such as ["PLANT/*"]'}),
        about("The entities whose events are written, `*` for any characters and `?` for one."),
    ] = ("*",)
    start: Annotated[
        Literal["latest", "earliest"],
        about("Where an outlet begins that has never written: at what comes from now on, or at what there is."),
    ] = "latest"
    options_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file, or empty"}),
        about("File with options of librdkafka, `NAME=VALUE` in each line: TLS, user, password."),
    ] = ""


class JournalSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The journal, in `data_dir/journal`: the events of all items for which a data adapter has a `journal` table."""

    enabled: Annotated[bool, about("Whether there is a journal; without it nothing can be journaled.")] = True
    interval_millis: Annotated[
        int,
        Meta(ge=1, le=60_000),
        about("Longest time that events of policies `interval` and `off` wait for others; a crash loses 5 ms more."),
    ] = 50
    segment_bytes: Annotated[
        int,
        Meta(ge=65_536, le=LARGEST),
        about(
            "A file of the journal that reaches this size is closed and a new one is started. At start-up at most "
            "one file is read."
        ),
    ] = 134_217_728
    segment_seconds: Annotated[
        Positive,
        about(
            "A file of the journal that reaches this age is closed and a new one is started. Only whole "
            "files are deleted."
        ),
    ] = 3600
    queue_bytes: Annotated[
        int,
        Meta(ge=1_048_576, le=LARGEST),
        about(
            "Bytes that may wait for the disk; beyond this, events are not journaled, and their number is counted "
            "and logged."
        ),
    ] = 67_108_864
    max_age_hours: Annotated[
        ZeroOrMore,
        about("Closed files older than this are deleted (see `keep_until_in_lake`). 0 = no limit of age."),
    ] = 168
    max_bytes: Annotated[
        int,
        Meta(ge=0, le=2**53),
        about(
            "If all files together are larger than this, the oldest are deleted (see `keep_until_in_lake`). 0 = "
            "unlimited."
        ),
    ] = 0
    keep_until_in_lake: Annotated[
        bool,
        about(
            "Whether files are only deleted once the lake contains them. Set it to false for a server without the"
            " `history` job, or nothing is ever deleted; history then reaches back as far as the journal."
        ),
    ] = True
    min_free_bytes: Annotated[
        int,
        Meta(ge=0, le=2**53),
        about("If the disk has less free space than this, `/ready` says that it is nearly full. 0 = never."),
    ] = 268_435_456
    readers: Mapping[Line, ReaderSection] = {}
    outlets: Mapping[Line, OutletSection] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "readers", MappingProxyType(self.readers))
        force_setattr(self, "outlets", MappingProxyType(self.outlets))

    def __hash__(self) -> int:
        fixed = [getattr(self, name) for name in self.__struct_fields__ if name not in ("readers", "outlets")]
        return hash((*fixed, *self.readers.items(), *self.outlets.items()))
