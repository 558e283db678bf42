"""Why a WebSocket could not be opened, or was lost, in plain words. Errors of system and TLS are in
`transport.obstacles`."""

from __future__ import annotations

import ssl
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidProxy, InvalidStatus, ProxyError

from penstock.obstacles import obstacle

Proxy = str | Literal[True] | None

# What a server answers that is draining, or has as many connections as it may.
UNAVAILABLE = 503

# The environment's proxies that may be meant for a WebSocket, by their names without `_proxy`.
PROXIES = frozenset(("http", "https", "socks", "all"))


def reason(error: Exception, address: str, proxy: Proxy) -> str:
    """One line about the error that an attempt to connect to a WebSocket's address has raised."""
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        if status == UNAVAILABLE:
            why = "because it is about to stop or has too many clients"
            return f"it accepts no clients at the moment (HTTP status {status}), {why}"
        return f"it answers with HTTP status {status}; expected a WebSocket, as the streaming port of a server has"
    if isinstance(error, InvalidMessage):
        if isinstance(error.__cause__, EOFError):
            hint = "" if address.startswith("wss:") else "; a port with TLS needs https:// or wss://"
            return f"it has closed the connection without an answer{hint}"
        return "its answer is not HTTP; expected the streaming port of a server"
    # An ImportError is about a proxy of a kind that needs a package which is not there.
    if isinstance(error, InvalidProxy | ProxyError | ImportError):
        return f"the proxy does not work: {error}"
    if isinstance(error, ConnectionClosed):
        return "the connection was closed"
    # Of a proxy that is not there the system says the same as of a server that is not there.
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and _is_used(proxy, address):
        return f"{obstacle(error)}; the connection goes through a proxy"
    return obstacle(error)


def _is_used(proxy: Proxy, address: str) -> bool:
    if proxy is not True:
        return proxy is not None
    return bool(PROXIES.intersection(getproxies())) and not proxy_bypass(urlsplit(address).hostname or "")
