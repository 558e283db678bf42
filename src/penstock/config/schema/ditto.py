"""The Ditto door: `[ditto]`.

Not here: the API port that it is on (ports.py), the users, whom an adapter set knows (adapters.py).
Read next: docs/ditto.md.
"""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.schema.values import HeaderName, OptionalLine, about


class DittoSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Ditto door: digital twins and their history, `/api/2` and `/ws/2` on the API port. It needs the journal."""

    enabled: Annotated[
        bool, about("Whether the door is open; without `adapter_set` and without the demo it is closed all the same.")
    ] = True
    adapter_set: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the name of an adapter set, or empty"}),
        about(
            "The adapter set whose metadata adapter knows the users. Empty: with the demo, user `ditto` with password"
            " `ditto`, for clients on this machine, without a proxy in between, of a server that only listens there."
        ),
    ] = ""
    issuer: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z", extra={"allowed": '1 to 64 letters, digits, ".", "_" or "-"'}),
        about("What policies call users with a token: `ISSUER:USER`. Users with a password are `nginx:USER`."),
    ] = "token"
    default_namespace: Annotated[
        str,
        Meta(
            pattern=r"^[a-zA-Z]\w*([.-][a-zA-Z]\w*)*\Z",
            extra={"allowed": 'words with dots between them, such as "com.example"'},
        ),
        about("The namespace of things whose ID is made up by the server."),
    ] = "org.eclipse.ditto"
    historical_headers: Annotated[
        tuple[HeaderName, ...],
        about(
            "Headers of commands that are journaled with their changes and come back with their history, as"
            " `historical-headers`. `ditto-originator` is the subject that sent the command."
        ),
    ] = ()
