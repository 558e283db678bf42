"""Who may administer the server: `[admin]`.

Not here: users of adapter sets, whom their metadata adapters know (adapters.py).
Read next: docs/administration.md.
"""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.schema.values import OptionalLine, Positive, WebAddress, about


class AdminSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Administration at `/api/admin` of the API port, by people who log in."""

    users: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file of users, or empty"}),
        about(
            "File of users, as `penstock user add` writes it: those of role `admin` may do everything, those of role"
            " `viewer` may look. It is read again when it changes. Empty: nobody may administer the server."
        ),
    ] = ""
    login_minutes: Annotated[
        Positive, about("How long a token is good that somebody has got by logging in; then they log in again.")
    ] = 60
    dashboard_at_stream: Annotated[
        bool, about("Whether the streaming port serves `/dashboard/` as well, and `/api/admin`, which it needs.")
    ] = False
    stream_address: Annotated[
        WebAddress,
        about(
            "Address of the streaming port for browsers that show the dashboard, if a proxy is before it, such as"
            " `https://push.example.com`; empty: the port of `[stream]` on the host that the page came from."
        ),
    ] = ""
