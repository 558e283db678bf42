"""Files that are served at the streaming port: `[pages]`.

Not here: the page that comes with the server, which needs no key.
Read next: docs/listeners.md, "Pages of your own".
"""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.schema.values import OptionalLine, UrlPath, ZeroOrMore, about


class PagesSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder of your own whose files are served at the streaming port."""

    directory: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a directory, or empty"}),
        about("The folder; empty serves none."),
    ] = ""
    path: Annotated[
        UrlPath,
        about("Where its files are found: below this path, where the server's own page is not then."),
    ] = "/"
    max_age_seconds: Annotated[
        ZeroOrMore, about("Seconds for which browsers may use a file without asking again; 0 has them ask each time.")
    ] = 0
