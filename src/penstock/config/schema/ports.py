"""The two ports of every server: `[stream]` and `[api]`; which other pages may use them: `[cors]` and `[api.cors]`.

Not here: what one client may ask of them (limits.py), the listeners of TLEX (tlex.py).
Read next: docs/configuration.md.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.schema.values import (
    LARGEST,
    Address,
    Ciphers,
    HeaderName,
    Host,
    OptionalPath,
    Origin,
    Port,
    ZeroOrMore,
    about,
)


class TlsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The streaming door over TLS, on the same host; it opens when `certificate` is set."""

    certificate: Annotated[
        OptionalPath, about("File of the certificate chain; empty keeps the TLS listener closed.")
    ] = ""
    private_key: Annotated[
        OptionalPath,
        about("File of the certificate's private key, not encrypted; needed when `certificate` is set."),
    ] = ""
    port: Annotated[Port, about("Port of the TLS listener; 0 takes any free one.")] = 8443
    ciphers: Annotated[
        Ciphers, about("Cipher list for TLS 1.2 (1.3 has its own); empty keeps the defaults of Python's ssl.")
    ] = ""
    client_ca: Annotated[
        OptionalPath,
        about("File of the authorities that sign clients' certificates; empty asks clients for none."),
    ] = ""
    client_certificate: Annotated[
        Literal["optional", "required"],
        about("With `client_ca`: whether a client without a certificate is let in. Adapters are told whom it names."),
    ] = "optional"

    @property
    def enabled(self) -> bool:
        return self.certificate != ""


class StreamSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The streaming door: clients over HTTP and WebSocket, and the pages."""

    host: Annotated[Host, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    port: Annotated[Port, about("Port to listen on; 0 takes any free one.")] = 8080
    backlog: Annotated[
        int,
        Meta(ge=1, le=65_535),
        about("Connections the system queues until the server accepts them; more may be refused."),
    ] = 1024
    max_connections: Annotated[
        ZeroOrMore,
        about(
            "Open connections in all; one more closes the one that is idle the longest, or is refused where none is. "
            "0 = what others leave of the process's descriptors: an eighth is for files, and see `api.max_connections`."
        ),
    ] = 0
    control_link_address: Annotated[
        Address,
        about("Address announced in CONOK for rebinds and control requests; empty announces `*` (this one)."),
    ] = ""
    max_unsent_bytes: Annotated[
        int,
        Meta(ge=1024, le=LARGEST),
        about("Bytes of a connection that the system may hold unsent; beyond it, updates are held and merged instead."),
    ] = 16_384
    max_outbound_frame_size: Annotated[
        int,
        Meta(ge=125, le=LARGEST),
        about("Largest WebSocket frame sent, in bytes; longer data takes several frames."),
    ] = 16_384
    allow_websocket_origins: Annotated[
        tuple[Origin, ...],
        about("Origins whose pages may open a WebSocket, others are refused; `*` allows every origin."),
    ] = ("*",)
    tls: TlsSection = TlsSection()


class CorsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pages from elsewhere may use the HTTP requests of the streaming door."""

    allow_origins: Annotated[
        tuple[Origin, ...],
        about("Origins whose pages may read the answers; `*` allows every origin, an empty list none."),
    ] = ("*",)
    accept_credentials: Annotated[bool, about("Whether those pages may send cookies and other credentials.")] = True
    accept_extra_headers: Annotated[
        tuple[HeaderName, ...], about("Request headers allowed beyond those that clients normally send.")
    ] = ()
    options_max_age: Annotated[
        ZeroOrMore, about("Seconds for which a browser may remember the answer to a preflight request.")
    ] = 3600


class ApiCorsSection(CorsSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pages from elsewhere may use the API port: none that is not named here."""

    allow_origins: Annotated[
        tuple[Origin, ...],
        about("Origins whose pages may read the answers; `*` allows every origin, but not together with credentials."),
    ] = ()
    accept_credentials: Annotated[
        bool, about("Whether those pages may send cookies and what the browser knows of passwords.")
    ] = False


class ApiSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API port: probes, figures, ingest adapters, and the REST doors. `[limits]` holds for its connections, too."""

    host: Annotated[Host, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    port: Annotated[Port, about("Port to listen on; 0 takes any free one.")] = 8081
    max_connections: Annotated[
        ZeroOrMore,
        about(
            "Open connections in all; one more closes the one that is idle the longest, or is refused where none is. "
            "0 = a quarter of the descriptors that the process may have."
        ),
    ] = 0
    metrics: Annotated[
        bool, about("Whether `/metrics` shows figures for Prometheus to everybody who can reach the port.")
    ] = True
    cors: ApiCorsSection = ApiCorsSection()
