"""Hubs and edges on many machines: `[cluster]`, and TLS to its NATS servers, `[cluster.tls]`.

Not here: workers of one machine, which need none of it.
Read next: docs/cluster.md.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.schema.values import SECRET, OptionalHostName, OptionalLine, OptionalPath, about

# Which ports and IPv6 addresses there are is looked at in checks.py.
NatsAddress = Annotated[
    str,
    Meta(
        pattern=r"^(nats|tls)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?\Z",
        extra={"allowed": 'an address such as "nats://host:4222" or "tls://host:4222", without user and password'},
    ),
]
# Part of a subject of NATS, where dots, stars and spaces mean something.
SubjectWord = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_-]{1,32}\Z", extra={"allowed": '1 to 32 letters, digits, "_" or "-"'})
]


class ClusterTlsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS to the NATS servers. If one of these keys is set, or an address begins with `tls:`, TLS is always used."""

    trusted_ca: Annotated[
        OptionalPath,
        about("File with the certificate authorities (CAs) for the servers' certificates; empty = the system's."),
    ] = ""
    certificate: Annotated[OptionalPath, about("File with the certificate chain of this node; empty = none.")] = ""
    private_key: Annotated[
        OptionalPath,
        about("File with the certificate's private key, not encrypted; required if `certificate` is set."),
    ] = ""
    server_name: Annotated[
        OptionalHostName, about("Name that the servers' certificates must have; empty = the host of the address.")
    ] = ""

    @property
    def enabled(self) -> bool:
        return bool(self.trusted_ca or self.certificate or self.server_name)


class ClusterSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes on many machines, connected by NATS: hubs have the data and make decisions, edges serve the clients."""

    role: Annotated[
        Literal["none", "hub", "edge", "both"],
        about("Role of this node: `hub`, `edge`, `both` in one process, or `none` for a single server."),
    ] = "none"
    name: Annotated[SubjectWord, about("Name of the cluster. Nodes with different names ignore each other.")] = (
        "penstock"
    )
    nats: Annotated[tuple[NatsAddress, ...], about("Addresses of the NATS servers; any that answers is used.")] = ()
    prefix: Annotated[SubjectWord, about("The first word of all NATS subjects that are used.")] = "penstock"
    user: Annotated[OptionalLine, about("User name for NATS; empty = none.")] = ""
    password: Annotated[OptionalLine, SECRET, about("Password of `user`.")] = ""
    token: Annotated[OptionalLine, SECRET, about("Token for NATS, instead of a user; empty = none.")] = ""
    nkey_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file, or empty"}),
        about("File with the seed of an nkey for the login at NATS; empty = none."),
    ] = ""
    credentials_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file, or empty"}),
        about("File with JWT and seed of a NATS user (`.creds`); empty = none."),
    ] = ""
    store: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'the URL of a PostgreSQL database such as "postgresql+psycopg://host/name", or empty'}),
        about("Database in which hubs agree on which one is active. Empty = only one hub, without a standby."),
    ] = ""
    lease_millis: Annotated[
        Annotated[int, Meta(ge=1_000, le=600_000)],
        about("If a hub does not renew its lease in `store` for this long, a standby replaces it."),
    ] = 10_000
    tls: ClusterTlsSection = ClusterTlsSection()
