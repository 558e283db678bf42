"""The Spark pipeline and its jobs: `[pipeline]`.

Not here: the settings of each job, which the job checks itself (pipeline/jobs).
Read next: docs/pipeline.md.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from penstock.config.schema.values import SECRET, Line, OptionalLine, about


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
    status: Annotated[
        str,
        Meta(
            pattern=r"^([^/\x00-\x1f\x7f]+/[^/\x00-\x1f\x7f]+)?\Z",
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

    def __post_init__(self) -> None:
        force_setattr(self, "spark", MappingProxyType(self.spark))
        force_setattr(self, "jobs", MappingProxyType(self.jobs))

    def __hash__(self) -> int:
        fixed = [getattr(self, name) for name in self.__struct_fields__ if name not in ("spark", "jobs")]
        return hash((*fixed, *self.spark, *self.jobs))
