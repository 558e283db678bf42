"""What a listener can be told: `[listeners.NAME]`, and the parts of it that `[stream]` and `[api]` have as well.

Not here: what only those two have (ports.py), the listeners of TLEX (tlex.py).
Read next: docs/listeners.md.
"""

from typing import Annotated, Literal

from msgspec import Struct

from penstock.config.schema.values import (
    Address,
    Ciphers,
    Host,
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
    about("Paths that are served here, each with all that is below it; any other is answered with 404."),
]
Doors = Annotated[
    tuple[Literal["tlcp", "text6"], ...],
    about("Protocols that are served here. A TLCP client is refused with error 71 where its protocol is not."),
]
NewSessions = Annotated[
    bool,
    about(
        "Whether sessions can be opened here. If not, that is refused with error 70; rebinds and control are served."
    ),
]
ServerName = Annotated[
    OptionalLine, about("Name announced to clients that bind a session here (SERVNAME); empty announces `server.name`.")
]


class CertificateSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS for this listener, which speaks it and nothing else when `certificate` is set."""

    certificate: Annotated[OptionalPath, about("File of the certificate chain; empty: no TLS.")] = ""
    private_key: Annotated[
        OptionalPath,
        about("File of the certificate's private key, not encrypted; needed when `certificate` is set."),
    ] = ""
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


class TlsSection(CertificateSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The streaming door over TLS, on the same host; it opens when `certificate` is set."""

    port: Annotated[Port, about("Port of the TLS listener; 0 takes any free one.")] = 8443


class ProxiesSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The proxies in front of this listener, which say who their clients are; nobody else is believed."""

    addresses: Annotated[tuple[Network, ...], about("Addresses of the proxies, or networks that they are in.")] = ()
    proxy_protocol: Annotated[
        bool,
        about(
            "Every connection begins with a header of the PROXY protocol, version 1 or 2; one without it, or from an "
            "address that is not among `addresses`, is refused."
        ),
    ] = False
    client_header: Annotated[
        OptionalHeaderName,
        about(
            "Header in which the proxies name the client of a request: `X-Forwarded-For`, `Forwarded`, or one with "
            "an address such as `X-Real-IP`. From others it is refused. Empty: no header means anything."
        ),
    ] = ""


class ListenerSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A listener beside those of `[stream]` and `[api]`, under a name of letters, digits, `_` and `-`."""

    port: Annotated[Port, about("Port to listen on; 0 takes any free one.")]
    host: Annotated[Host, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    serves: Annotated[
        Literal["stream", "api"],
        about("What is behind it: that of the streaming port or that of the API port, with the same limits."),
    ] = "stream"
    paths: Paths = ("/",)
    doors: Doors = ("tlcp", "text6")
    new_sessions: NewSessions = True
    server_name: ServerName = ""
    control_link_address: Annotated[
        Address, about("The same as `stream.control_link_address`, for clients of this listener; empty: that one.")
    ] = ""
    tls: CertificateSection = CertificateSection()
    proxies: ProxiesSection = ProxiesSection()
