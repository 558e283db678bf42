"""Addresses of servers: those that people give are checked here, and the WebSocket's place follows from one or from a
CONOK.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

SOCKET_PATH = "/lightstreamer"

_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


# What no name of a host has in it; others than these the system may know.
_NO_HOST = frozenset(" \t\r\n")


def server_parts(url: str, schemes: tuple[str, ...], example: str) -> SplitResult:
    """The parts of a server's address; raises ValueError, which does not repeat a password."""
    try:
        parts = urlsplit(url)
        found = parts.scheme in schemes and bool(parts.hostname) and not _NO_HOST.intersection(url)
        if found and ":" not in (parts.hostname or ""):
            # As the system will be asked for it, which raises for a name that none can have.
            (parts.hostname or "").encode("idna")
        found = found and parts.port != 0
    except ValueError:
        found = False
    if not found:
        known = f"{', '.join(schemes[:-1])} or {schemes[-1]}"
        raise ValueError(
            f"{without_user(url)!r} is not a server address; expected {known}, a host, and a port if needed,"
            f" such as {example}"
        )
    if parts.username is not None:
        raise ValueError(f"{without_user(url)!r}: user and password must be given separately, not in the address")
    return parts


def without_user(url: str) -> str:
    """The address as it may be shown: without what may be a password in it."""
    scheme, slashes, rest = url.partition("//") if "//" in url else ("", "", url)
    place, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{place.rpartition('@')[2]}{slash}{path}"


def socket_address(url: str, control_link: str | None = None) -> str:
    """The WebSocket address of a server; with a control link (host, port if it has one) on that machine."""
    parts = server_parts(url, tuple(_SCHEMES), "http://localhost:8080")
    host, port = parts.hostname or "", parts.port
    if control_link is not None:
        link = urlsplit(control_link if "://" in control_link else f"//{control_link}")
        host, port = link.hostname or host, link.port or port
    if ":" in host:
        host = f"[{host}]"
    path = parts.path.rstrip("/")
    if not path.endswith(SOCKET_PATH):
        path += SOCKET_PATH
    return f"{_SCHEMES[parts.scheme]}://{host}{'' if port is None else f':{port}'}{path}"
