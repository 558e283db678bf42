"""The two ports of every server: `[stream]` and `[api]`; which other pages may use them: `[cors]` and `[api.cors]`.

Not here: listeners beside these (listeners.py), what one client may ask of them (limits.py), those of TLEX (tlex.py).
Read next: docs/configuration.md.
"""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.schema.listeners import (
    CertificateSection,
    Doors,
    NewSessions,
    Paths,
    ProxiesSection,
    ServerName,
    TlsSection,
)
from penstock.config.schema.values import LARGEST, Address, AllowedOrigin, HeaderName, HostName, Port, ZeroOrMore, about


class StreamSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The streaming port: clients over HTTP and WebSocket, and web pages."""

    host: Annotated[HostName, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    port: Annotated[Port, about("Port to listen on; 0 = any free port.")] = 8080
    backlog: Annotated[
        int,
        Meta(ge=1, le=65_535),
        about("Connections the system queues until the server accepts them; more may be refused."),
    ] = 1024
    max_connections: Annotated[
        ZeroOrMore,
        about(
            "Maximum number of open connections. One more closes the connection that has been idle longest; if none "
            "is idle, it is refused. 0 = all file descriptors of the process that are not reserved: an eighth is for "
            "files; see also `api.max_connections`."
        ),
    ] = 0
    control_link_address: Annotated[
        Address,
        about("Address announced in CONOK for rebinds and control requests; empty announces `*` (this one)."),
    ] = ""
    max_unsent_bytes: Annotated[
        int,
        Meta(ge=1024, le=LARGEST),
        about(
            "Unsent bytes of a connection that may wait in the system's socket buffer; beyond this, the server "
            "holds and merges updates."
        ),
    ] = 16_384
    max_outbound_frame_size: Annotated[
        int,
        Meta(ge=125, le=LARGEST),
        about("Largest WebSocket frame sent, in bytes; longer data takes several frames."),
    ] = 16_384
    allow_websocket_origins: Annotated[
        tuple[AllowedOrigin, ...],
        about("Origins whose pages may open a WebSocket; others are refused. `*` allows every origin."),
    ] = ("*",)
    paths: Paths = ("/",)
    doors: Doors = ("tlcp", "text6")
    new_sessions: NewSessions = True
    server_name: ServerName = ""
    tls: TlsSection = TlsSection()
    proxies: ProxiesSection = ProxiesSection()


class CorsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pages of other origins may send HTTP requests to the streaming port."""

    allow_origins: Annotated[
        tuple[AllowedOrigin, ...],
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
    """Which pages of other origins may use the API port; by default none."""

    allow_origins: Annotated[
        tuple[AllowedOrigin, ...],
        about("Origins whose pages may read the answers; `*` allows every origin, but not together with credentials."),
    ] = ()
    accept_credentials: Annotated[
        bool, about("Whether those pages may send cookies and passwords that the browser has stored.")
    ] = False


class ApiSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API port: health checks, metrics, ingest adapters, REST APIs. `[limits]` applies to its connections, too."""

    host: Annotated[HostName, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    port: Annotated[Port, about("Port to listen on; 0 = any free port.")] = 8081
    max_connections: Annotated[
        ZeroOrMore,
        about(
            "Maximum number of open connections. One more closes the connection that has been idle longest; if none "
            "is idle, it is refused. 0 = a quarter of the file descriptors that the process may have."
        ),
    ] = 0
    metrics: Annotated[
        bool, about("Whether `/metrics` shows metrics for Prometheus to everybody who can reach the port.")
    ] = True
    paths: Paths = ("/",)
    tls: CertificateSection = CertificateSection()
    proxies: ProxiesSection = ProxiesSection()
    cors: ApiCorsSection = ApiCorsSection()
