"""A listener of HTTP as it is configured: where it listens, what is served there, and to whom.

Every connection knows the one by which it has come. The sockets are in `listener`. Read next: docs/listeners.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.config import CertificateSection, Config
from penstock.transport.proxies import Proxies

# Listeners by the names of their tables in the configuration.
STREAM = "stream"
STREAM_TLS = "stream.tls"
API = "api"


@dataclass(frozen=True, slots=True)
class Entrance:
    """`server_name` and `control_link` are what clients are told; `tls` is None where there is none."""

    name: str
    host: str
    port: int
    paths: tuple[str, ...]
    doors: tuple[str, ...]
    new_sessions: bool
    server_name: str
    control_link: str
    tls: CertificateSection | None
    proxies: Proxies

    @property
    def secure(self) -> bool:
        return self.tls is not None

    def serves(self, path: str) -> bool:
        """Whether this path is served here: it is one of those configured, or below one."""
        for served in self.paths:
            beginning = served.rstrip("/")
            if path == beginning or path.startswith(f"{beginning}/"):
                return True
        return False


def stream_entrances(config: Config) -> list[Entrance]:
    """Those of the streaming port: plain, with TLS if there is a certificate, and those with names of their own."""
    stream = config.stream
    plain = Entrance(
        STREAM,
        stream.host,
        stream.port,
        stream.paths,
        stream.doors,
        stream.new_sessions,
        stream.server_name or config.server.name,
        stream.control_link_address,
        None,
        Proxies(stream.proxies),
    )
    found = [plain]
    if stream.tls.enabled:
        found.append(replace(plain, name=STREAM_TLS, port=stream.tls.port, tls=stream.tls))
    return [*found, *_named(config, "stream")]


def api_entrances(config: Config) -> list[Entrance]:
    """Those of the API port: its own, and those with names of their own."""
    api = config.api
    tls = api.tls if api.tls.enabled else None
    own = Entrance(API, api.host, api.port, api.paths, (), False, config.server.name, "", tls, Proxies(api.proxies))
    return [own, *_named(config, "api")]


def _named(config: Config, serves: str) -> list[Entrance]:
    return [
        Entrance(
            name,
            listener.host,
            listener.port,
            listener.paths,
            listener.doors,
            listener.new_sessions,
            listener.server_name or config.server.name,
            listener.control_link_address or config.stream.control_link_address,
            listener.tls if listener.tls.enabled else None,
            Proxies(listener.proxies),
        )
        for name, listener in config.listeners.items()
        if listener.serves == serves
    ]
