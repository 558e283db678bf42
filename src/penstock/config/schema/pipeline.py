"""The Spark pipeline, its jobs, typed tables and queries: `[pipeline]`.

Not here: the settings of each job, which the job checks itself (pipeline/jobs); whether tables and queries make sense
(history/catalog.py, pipeline/queries.py). Read next: docs/pipeline.md, docs/sql.md.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from penstock.config.schema.values import SECRET, Line, OptionalLine, about

# An adapter set and an adapter.
_PATH = r"[^/\x00-\x1f\x7f]+/[^/\x00-\x1f\x7f]+"

# Which ingest adapter, or which journaled one.
FullAdapterName = Annotated[
    str,
    Meta(
        pattern=rf"^{_PATH}\Z",
        extra={"allowed": 'an adapter set and an adapter such as "PLANT/READINGS"'},
    ),
]


class TableSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A typed table for SQL: some journaled items. Its schema is the adapter set, unless its name has one."""

    adapter: Annotated[FullAdapterName, about("The adapter whose journaled items it has.")]
    item: Annotated[Line, about("Its items: a pattern with `*` and `?`; what stands for `{name}` is a column.")] = "*"
    fields: Annotated[
        Mapping[Line, Any],
        Meta(extra={"allowed": "a table"}),
        about(
            'Columns and their types; `{ from = "FIELD", type = "double" }` if the field is called otherwise, or is'
            " a JSON pointer. Without it, columns are inferred."
        ),
    ] = {}
    time: Annotated[
        OptionalLine, about("The field with the time of the event; empty = the time when the server received it.")
    ] = ""
    kinds: Annotated[
        tuple[Line, ...],
        Meta(extra={"allowed": "a list of kinds of records"}),
        about("Kinds of records that are rows; empty = `update`, for payloads and things theirs."),
    ] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "fields", MappingProxyType(self.fields))

    def __hash__(self) -> int:
        return hash((self.adapter, self.item, self.time, self.kinds, *self.fields))


class QuerySection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query over typed tables whose rows become live items: `penstock pipeline run NAME`."""

    sql: Annotated[str, Meta(extra={"allowed": "text"}), about("The query, in Spark SQL.")] = ""
    file: Annotated[
        OptionalLine, Meta(extra={"allowed": "the path of a file, or empty"}), about("Instead, a file with it.")
    ] = ""
    to: Annotated[
        str,
        Meta(
            pattern=rf"^({_PATH})?\Z",
            extra={"allowed": 'an adapter set and an ingest adapter such as "PLANT/AVERAGES", or empty'},
        ),
        about("The ingest adapter that publishes the rows; empty = the only one that declares such items."),
    ] = ""
    item: Annotated[Line, about("Name of the items, with columns of the result in braces.")]
    mode: Annotated[Literal["MERGE", "DISTINCT", "COMMAND"], about("As the adapter declares the items.")] = "MERGE"
    key: Annotated[OptionalLine, about("COMMAND: the column with the key of a row.")] = ""
    command: Annotated[OptionalLine, about("COMMAND: a column with `ADD`, `UPDATE`, `DELETE` or null.")] = ""
    order_by: Annotated[
        tuple[Line, ...],
        Meta(extra={"allowed": "a list of columns"}),
        about("Columns of the result by which the rows of a batch are sorted."),
    ] = ()
    watermark: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a duration such as "10 minutes", "never", or empty'}),
        about(
            "How late events may be, by the column `time`; queries that group, join or deduplicate need it. `never` ="
            " nothing is too late, and all groups are kept in memory."
        ),
    ] = ""
    output_mode: Annotated[
        Literal["update", "append"],
        about("`update` publishes a group each time it changes, `append` once, when the watermark has passed it."),
    ] = "update"
    trigger: Annotated[Line, about("Time between batches.")] = "0 seconds"
    starting: Annotated[
        Line,
        about("Where a query without a checkpoint begins: `earliest`, with the lake, `latest`, a sequence or a time."),
    ] = "earliest"
    max_events: Annotated[int, Meta(ge=1, le=2**53), about("Maximum number of events of a batch.")] = 100_000


class PipelineSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Spark pipeline, which runs in a process of its own: `penstock pipeline`."""

    master: Annotated[
        Line,
        Meta(extra={"allowed": 'a Spark master such as "local[*,4]" or "spark://host:7077"'}),
        about("Spark master: where the pipeline runs."),
    ] = "local[*,4]"
    memory: Annotated[
        str,
        Meta(pattern=r"^[1-9][0-9]*[mg]\Z", extra={"allowed": 'a number and "m" or "g", such as "1g"'}),
        about("Memory of the Java process."),
    ] = "1g"
    api: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[A-Za-z0-9._:\[\]-]+)?\Z",
            extra={"allowed": 'an address such as "http://127.0.0.1:8081", or empty'},
        ),
        about("Address of the API port of the server that it publishes to; empty = that of this configuration."),
    ] = ""
    token: Annotated[OptionalLine, SECRET, about("Token for the ingest adapter; empty = the one in `token_file`.")] = ""
    token_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file, or empty"}),
        about("File that contains the token; empty = `data_dir/pipeline/token`, which the demo creates."),
    ] = ""
    journal: Annotated[
        Literal["directory", "server"],
        about(
            "Where jobs read the journal: in `data_dir`, or over the network from the server at `api`, for machines"
            " that do not see the server's disk."
        ),
    ] = "directory"
    reader_token: Annotated[
        OptionalLine, SECRET, about("Token of a reader (`[journal.readers]`); empty = the one in `reader_token_file`.")
    ] = ""
    reader_token_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file, or empty"}),
        about("File that contains the token of a reader."),
    ] = ""
    checkpoints: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a directory, a URL such as "s3a://bucket/checkpoints", or empty'}),
        about(
            "Where jobs keep their checkpoints and ledgers, which the driver and all workers must reach; empty ="
            " `data_dir/checkpoints`."
        ),
    ] = ""
    status: Annotated[
        str,
        Meta(
            pattern=rf"^({_PATH})?\Z",
            extra={"allowed": 'an adapter set and an ingest adapter such as "WELCOME/PIPELINE", or empty'},
        ),
        about("Where it publishes the status of its queries, as items `query.NAME` and `queries`; empty = nowhere."),
    ] = "WELCOME/PIPELINE"
    restart: Annotated[
        Literal["always", "never"],
        about("Whether a failed query is started again, after a pause that grows."),
    ] = "always"
    spark: Annotated[Mapping[Line, Any], Meta(extra={"allowed": "a table"}), about("Settings of Spark, by name.")] = {}
    jobs: Annotated[
        Mapping[Line, Mapping[Line, Any]],
        Meta(extra={"allowed": "a table of tables"}),
        about("Settings of jobs: a table for each, such as `[pipeline.jobs.candles]`."),
    ] = {}
    tables: Mapping[Line, TableSection] = {}
    queries: Mapping[Line, QuerySection] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "spark", MappingProxyType(self.spark))
        force_setattr(self, "jobs", MappingProxyType(self.jobs))
        force_setattr(self, "tables", MappingProxyType(self.tables))
        force_setattr(self, "queries", MappingProxyType(self.queries))

    def __hash__(self) -> int:
        tables = ("spark", "jobs", "tables", "queries")
        fixed = [getattr(self, name) for name in self.__struct_fields__ if name not in tables]
        return hash((*fixed, *self.spark, *self.jobs, *self.tables.items(), *self.queries.items()))
