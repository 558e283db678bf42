"""Headers of commands that are journaled with their changes, and are told again with what was.

Which these are is configured; by default there are none. The journal may hold others beside them, which are nobody
else's business (`twins.milestone`). Upstream documentation: "History capabilities", Historical headers.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.twins.caller import Caller
from penstock.wire.ditto.document import Json, parse
from penstock.wire.ditto.envelope import Headers

# The subject that sent a command: what the server knows, whatever the client says.
ORIGINATOR = "ditto-originator"


def to_keep(headers: Headers, caller: Caller, names: Collection[str]) -> dict[str, Json]:
    """Of the headers of a command, those with these names, which are in lower case."""
    known = {**headers, ORIGINATOR: caller.names[0]}
    return {name: known[name] for name in names if name in known}


def kept_in(text: str | None, names: Collection[str]) -> dict[str, Json] | None:
    """Of the headers of a record, those with these names; None if there are none."""
    if text is None or not names:
        return None
    return {name: value for name, value in parse(text).items() if name in names} or None
