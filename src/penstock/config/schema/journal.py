"""The journal as a whole: `[journal]`.

Not here: which items are journaled (adapters.py), the lake, which the pipeline writes (pipeline.py).
Read next: docs/journal.md.
"""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.schema.values import LARGEST, Positive, ZeroOrMore, about


class JournalSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The journal, in `data_dir/journal`: the history of everything that data adapters are told to have journaled."""

    enabled: Annotated[bool, about("Whether there is a journal at all; without it nothing may be journaled.")] = True
    interval_millis: Annotated[
        int,
        Meta(ge=1, le=60_000),
        about("Longest time that events of policies `interval` and `off` wait for others; a crash loses 5 ms more."),
    ] = 50
    segment_bytes: Annotated[
        int,
        Meta(ge=65_536, le=LARGEST),
        about("A file of the journal this large is closed and another begun; start-up reads at most one."),
    ] = 134_217_728
    segment_seconds: Annotated[
        Positive, about("A file of the journal this old is closed and another begun; whole files are dropped.")
    ] = 3600
    queue_bytes: Annotated[
        int,
        Meta(ge=1_048_576, le=LARGEST),
        about("Bytes that may wait for the disk; beyond it events are not journaled, which is counted and logged."),
    ] = 67_108_864
    max_age_hours: Annotated[
        ZeroOrMore,
        about("Closed files older than this are dropped, see `keep_until_in_lake`. 0 = never for their age."),
    ] = 168
    max_bytes: Annotated[
        int,
        Meta(ge=0, le=2**53),
        about("Size of all files above which the oldest are dropped, see `keep_until_in_lake`. 0 = unlimited."),
    ] = 0
    keep_until_in_lake: Annotated[
        bool,
        about(
            "Whether no file is dropped before the lake has all of it. Without the `history` job set it to false, or"
            " nothing is ever dropped; history then reaches back as far as the journal."
        ),
    ] = True
    min_free_bytes: Annotated[
        int,
        Meta(ge=0, le=2**53),
        about("With less room on the disk `/ready` says that it is nearly full. 0 = never."),
    ] = 268_435_456
