"""Where the lake is: `[lake]`.

Not here: how it is written (`[pipeline.jobs.history]`), which options an object store has (history/lake_url.py).
Read next: docs/pipeline.md, "The lake at a URL".
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from penstock.config.schema.values import Line, OptionalLine, about


class LakeSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lake, to which the job `history` moves what is journaled."""

    url: Annotated[
        str,
        Meta(
            # Of abfss the account is needed as well, which the environment does not say.
            pattern=r"^((s3|s3a|gs)://[^\s?#@/]+(/[^\s?#@]*)?"
            r"|abfss://[^\s?#@/]+@[^\s?#@/.]+\.[^\s?#@/]+(/[^\s?#@]*)?|file:///[^\s]*)?\Z",
            extra={
                "allowed": 'a URL such as "s3://bucket/lake", "gs://bucket/lake", '
                '"abfss://container@account.dfs.core.windows.net/lake" or "file:///lake", or empty'
            },
        ),
        about("Where it is, for the server and the pipeline; empty = `data_dir/lake`."),
    ] = ""
    options: Annotated[
        Mapping[Line, Any],
        Meta(extra={"allowed": "a table"}),
        about("Options and credentials of requests to `url`; what is missing is taken from the environment."),
    ] = {}
    credentials_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file, or empty"}),
        about("TOML file with more options, such as credentials. It is read again when it has changed."),
    ] = ""

    def __post_init__(self) -> None:
        force_setattr(self, "options", MappingProxyType(self.options))

    def __hash__(self) -> int:
        return hash((self.url, *self.options, self.credentials_file))
