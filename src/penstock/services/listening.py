"""What the services of both ports that speak HTTP do alike: tell where they listen, and which certificates they show.

The listeners themselves are in `penstock.transport`.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.config import Config
from penstock.config.address import address_of
from penstock.config.checks import EVERY_INTERFACE, OWN_LISTENERS
from penstock.services.service import Listening, Shown
from penstock.transport.entrance import STREAM_TLS, Entrance
from penstock.transport.port import HttpPort
from penstock.transport.tls import certificate_files

# The keys of a table for TLS that name files.
_FILES = ("certificate", "private_key", "client_ca")


def page_line(config: Config, port: int) -> str:
    """Names an address that a browser can open, which one that means "every interface" is not."""
    host = "localhost" if config.stream.host in EVERY_INTERFACE else config.stream.host
    return f"penstock: the page is at http://{address_of(host, port)}/"


def planned(entrances: Iterable[Entrance]) -> list[Listening]:
    """Listeners that other processes have, or will have."""
    return [Listening(each.name, each.host, each.port, each.secure) for each in entrances]


def listening(port: HttpPort) -> list[Listening]:
    """The listeners of a port, in the order in which they were opened."""
    return [
        Listening(opened.entrance.name, opened.entrance.host, opened.listener.port, opened.entrance.secure)
        for opened in port.opened
    ]


def shown(port: HttpPort, entrances: Iterable[Entrance]) -> list[Shown]:
    """The certificates of a port's listeners, to be read again from the files that `entrances` name."""
    files = {entrance.name: certificate_files(entrance.tls) for entrance in entrances if entrance.tls is not None}
    return [
        Shown(entrance.name, certificate, files[entrance.name])
        for entrance, _, certificate in port.opened
        if certificate is not None and entrance.name in files
    ]


def renewed(entrances: Iterable[Entrance]) -> frozenset[str]:
    """The keys that name files of certificates."""
    return frozenset(f"{_table(entrance)}.{key}" for entrance in entrances for key in _FILES)


def _table(entrance: Entrance) -> str:
    if entrance.name == STREAM_TLS:
        return STREAM_TLS
    return f"{entrance.name}.tls" if entrance.name in OWN_LISTENERS else f"listeners.{entrance.name}.tls"
