"""Who counts as a client on this machine, for a login whose password everybody knows.

A connection from a loopback address may still be somebody else's: a proxy on this machine, or a tunnel that ends here,
passes on what comes from anywhere. What gives these away is looked for; one that hides on purpose cannot be told from a
local client, so a server that others are to reach has no demo. Read next: docs/decisions.md, "Demo logins".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from penstock.kernel.ports import ClientFacts

LOCALHOST = "localhost"

# Headers by which proxies say for whom they ask; names that begin with the prefix are of the same kind.
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
    """`hosts` are the addresses that the server listens on, `ports` says which ports it has got there."""

    def __init__(self, hosts: Sequence[str], ports: Callable[[], Collection[int]]) -> None:
        self._is_private = all(is_loopback(host) for host in hosts)
        self._ports = ports

    def includes(self, client: ClientFacts) -> bool:
        """Whether the client is on this machine and talks to the server itself, as far as that can be known."""
        return (
            self._is_private
            and is_loopback(client.address, names=False)
            and not any(_is_forwarding(name) for name in client.headers)
            and self._names_us(client.headers, "https" if client.secure else "http")
        )

    def _names_us(self, headers: Mapping[str, str], scheme: str) -> bool:
        """Whether the client has asked for one of our addresses: that of a proxy has another name or port."""
        try:
            asked = urlsplit(f"{scheme}://{headers.get('host', '')}")
            return is_loopback(asked.hostname or "") and (asked.port or PORTS[scheme]) in self._ports()
        except ValueError:
            return False


def is_loopback(host: str, *, names: bool = True) -> bool:
    """Whether an address, or with `names` also a name, is this machine's for nobody but itself."""
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
