"""Who may administer the server: `[admin]`.

Not here: users of adapter sets, whom their metadata adapters know (adapters.py).
Read next: docs/administration.md.
"""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.schema.values import OptionalLine, Positive, WebAddress, about


class AdminSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Administration at `/api/admin` of the API port."""

    users: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file of users, or empty"}),
        about(
            "Password file, as `penstock user add` writes it. Users with the role `admin` may do everything, those "
            "with the role `viewer` may only look. The file is read again when it changes. Empty = nobody can "
            "administer the server."
        ),
    ] = ""
    login_minutes: Annotated[Positive, about("How long the token of a login is valid.")] = 60
    dashboard_at_stream: Annotated[
        bool,
        about("Whether the streaming port also serves `/dashboard/`, and `/api/admin`, which the dashboard needs."),
    ] = False
    stream_address: Annotated[
        WebAddress,
        about(
            "Address of the streaming port as browsers that show the dashboard see it, such as "
            "`https://push.example.com`, if there is a proxy in front of it. Empty = the port of `[stream]` on the "
            "host that the page came from."
        ),
    ] = ""
