"""Files that are served at the streaming port: `[pages]`.

Not here: the page that comes with the server, which needs no key.
Read next: docs/listeners.md, "Pages of your own".
"""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.schema.values import OptionalLine, UrlPath, ZeroOrMore, about


class PagesSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Your own files, served by the streaming port."""

    directory: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a directory, or empty"}),
        about("Folder with the files; empty = none."),
    ] = ""
    path: Annotated[
        UrlPath,
        about("Path below which the files are served; it replaces the server's own page there."),
    ] = "/"
    max_age_seconds: Annotated[
        ZeroOrMore, about("Seconds for which browsers may use a file without asking again; 0 = they ask each time.")
    ] = 0
