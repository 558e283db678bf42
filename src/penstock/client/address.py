"""Where the WebSocket of a server is, from whatever address a person or a CONOK gives."""

from __future__ import annotations

from urllib.parse import urlsplit

SOCKET_PATH = "/lightstreamer"

_SCHEMES = {"http": "ws", "ws": "ws", "https": "wss", "wss": "wss"}


def socket_address(url: str, control_link: str | None = None) -> str:
    """The WebSocket address of a server; with a control link (host, port if it has one) on that machine."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError(f"{url!r} is no server address; expected http, https, ws or wss, a host, and a port if needed")
    host, port = parts.hostname, parts.port
    if control_link is not None:
        link = urlsplit(control_link if "://" in control_link else f"//{control_link}")
        host, port = link.hostname or host, link.port or port
    if ":" in host:
        host = f"[{host}]"
    path = parts.path.rstrip("/")
    if not path.endswith(SOCKET_PATH):
        path += SOCKET_PATH
    return f"{_SCHEMES[parts.scheme]}://{host}{'' if port is None else f':{port}'}{path}"
