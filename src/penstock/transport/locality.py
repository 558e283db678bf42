"""Which clients count as local to this machine, for what the demo lets nobody else do: its login has a public password.

A connection from a loopback address may still be remote: a proxy on this machine, or a tunnel that ends here, forwards
requests from anywhere. Their usual traces are looked for; one that hides on purpose looks like a local client, so a
server that others can reach must not have the demo. Read next: docs/decisions.md, "Demo logins".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import ip_address
from typing import Self
from urllib.parse import urlsplit

from penstock.config import Config
from penstock.kernel.ports import ClientFacts
from penstock.transport.entrance import api_entrances, stream_entrances

LOCALHOST = "localhost"

# Headers in which proxies name their client; names with the prefix are of the same kind.
FORWARDING = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-host",
        "true-client-ip",
        "cf-connecting-ip",
    }
)
FORWARDING_PREFIX = "x-forwarded-"

PORTS = {"http": 80, "https": 443}


class Locality:
    """`hosts` are the addresses that the server listens on, `ports` returns its ports there.

    A server behind proxies is never private, because what they forward looks like their own requests.
    """

    def __init__(self, hosts: Sequence[str], ports: Callable[[], Collection[int]], has_proxies: bool = False) -> None:
        self._is_private = not has_proxies and all(is_loopback(host) for host in hosts)
        self._ports = ports

    @classmethod
    def of(cls, config: Config, ports: Callable[[], Collection[int]]) -> Self:
        """Of a server with this configuration."""
        entrances = [*stream_entrances(config), *api_entrances(config)]
        has_proxies = any(entrance.proxies.are_there for entrance in entrances)
        return cls([entrance.host for entrance in entrances], ports, has_proxies)

    def includes(self, client: ClientFacts) -> bool:
        """Whether the client is on this machine and connects directly, as far as that can be known."""
        return (
            self._is_private
            and is_loopback(client.address, names=False)
            and not any(_is_forwarding(name) for name in client.headers)
            and self._names_us(client.headers, "https" if client.secure else "http")
        )

    def _names_us(self, headers: Mapping[str, str], scheme: str) -> bool:
        """Whether the request names one of our addresses: a proxy has another name or port."""
        try:
            asked = urlsplit(f"{scheme}://{headers.get('host', '')}")
            return is_loopback(asked.hostname or "") and (asked.port or PORTS[scheme]) in self._ports()
        except ValueError:
            return False


def is_loopback(host: str, *, names: bool = True) -> bool:
    """Whether an address, or with `names` also a name, is a loopback one."""
    if names and host.lower() == LOCALHOST:
        return True
    try:
        found = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (found if mapped is None else mapped).is_loopback


def _is_forwarding(name: str) -> bool:
    return name in FORWARDING or name.startswith(FORWARDING_PREFIX)
