"""What a listener can be told: `[listeners.NAME]`, and the parts of it that `[stream]` and `[api]` have as well.

Not here: what only those two have (ports.py), the listeners of TLEX (tlex.py).
Read next: docs/listeners.md.
"""

from typing import Annotated, Literal

from msgspec import Struct

from penstock.config.schema.values import (
    Address,
    Ciphers,
    HostName,
    Network,
    OptionalHeaderName,
    OptionalLine,
    OptionalPath,
    Port,
    UrlPath,
    about,
)

Paths = Annotated[
    tuple[UrlPath, ...],
    about("Paths that this listener serves, each with everything below it; other paths are answered with 404."),
]
Doors = Annotated[
    tuple[Literal["tlcp", "text6"], ...],
    about("Protocols that this listener serves. Without `tlcp`, TLCP clients are refused with error 71."),
]
NewSessions = Annotated[
    bool,
    about(
        "Whether clients can open sessions at this listener. If not, they are refused with error 70; binding and "
        "controlling open sessions works."
    ),
]
ServerName = Annotated[
    OptionalLine,
    about("Name announced to clients that bind a session at this listener (SERVNAME); empty = `server.name`."),
]


class CertificateSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS for this listener. If `certificate` is set, it accepts only TLS."""

    certificate: Annotated[OptionalPath, about("File with the certificate chain; empty = no TLS.")] = ""
    private_key: Annotated[
        OptionalPath,
        about("File with the certificate's private key, not encrypted; required if `certificate` is set."),
    ] = ""
    ciphers: Annotated[
        Ciphers, about("Cipher list for TLS 1.2 (1.3 has its own); empty = the defaults of Python's ssl module.")
    ] = ""
    client_ca: Annotated[
        OptionalPath,
        about(
            "File with the certificate authorities (CAs) for client certificates; empty = clients are not asked "
            "for certificates."
        ),
    ] = ""
    client_certificate: Annotated[
        Literal["optional", "required"],
        about(
            "With `client_ca`: whether a client must have a certificate. Adapters are told the subject of the "
            "certificate."
        ),
    ] = "optional"

    @property
    def enabled(self) -> bool:
        return self.certificate != ""


class TlsSection(CertificateSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The streaming port with TLS, on the same host; it is opened if `certificate` is set."""

    port: Annotated[Port, about("Port of the TLS listener; 0 = any free port.")] = 8443


class ProxiesSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Trusted proxies in front of this listener, which tell the server the addresses of their clients."""

    addresses: Annotated[tuple[Network, ...], about("Addresses of the proxies, or of their networks.")] = ()
    proxy_protocol: Annotated[
        bool,
        about(
            "Every connection must begin with a header of the PROXY protocol, version 1 or 2. A connection without "
            "it, or from an address that is not in `addresses`, is refused."
        ),
    ] = False
    client_header: Annotated[
        OptionalHeaderName,
        about(
            "Header in which the proxies send the client's address: `X-Forwarded-For`, `Forwarded`, or one with a "
            "single address such as `X-Real-IP`. From anybody else it is refused. Empty = such headers are ignored."
        ),
    ] = ""


class ListenerSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An additional listener beside those of `[stream]` and `[api]`. Its name has letters, digits, `_` and `-`."""

    port: Annotated[Port, about("Port to listen on; 0 = any free port.")]
    host: Annotated[HostName, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    serves: Annotated[
        Literal["stream", "api"],
        about("What it serves: the same as the streaming port or as the API port, with the same limits."),
    ] = "stream"
    paths: Paths = ("/",)
    doors: Doors = ("tlcp", "text6")
    new_sessions: NewSessions = True
    server_name: ServerName = ""
    control_link_address: Annotated[
        Address, about("Like `stream.control_link_address`, for clients of this listener; empty = that address.")
    ] = ""
    tls: CertificateSection = CertificateSection()
    proxies: ProxiesSection = ProxiesSection()
