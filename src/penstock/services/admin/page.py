"""The page of the dashboard: its files, and the policy that says where it may connect to.

What the page is made of is in `web/`; its files are read by `penstock.doors.stream.pages`.
Read next: docs/dashboard.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.doors.stream.pages import NOT_BUILT, Page, Pages

if TYPE_CHECKING:
    from penstock.services.admin.models import StreamInfo

PATH = "/dashboard"
ASSETS = "/assets"

NOTHING_ELSE = "frame-ancestors 'none'; form-action 'none'; base-uri 'none'"

# The header of this name, if it makes sense: a name or an address, and perhaps a port.
HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d*)?")

SCHEMES = {"http": "ws", "https": "wss"}


def page_routes(stream: Callable[[], StreamInfo]) -> Sequence[BaseRoute]:
    """`stream` says where the page finds the streaming port."""
    pages = Pages()

    async def index(request: Request) -> Response:
        page = pages.find(f"{PATH}/")
        if page is None:
            return Response(NOT_BUILT, 404, media_type="text/plain")
        host = request.headers.get("host", "")
        return _answer(request, page, {"Content-Security-Policy": policy(host, stream())})

    async def asset(request: Request) -> Response:
        page = pages.find(f"{ASSETS}/{request.path_params['name']}")
        return Response("Not found\n", 404) if page is None else _answer(request, page, {})

    async def without_slash(request: Request) -> Response:
        # Relative, because a proxy may have a prefix that is not known here.
        return RedirectResponse("dashboard/")

    return [
        Route(PATH, without_slash),
        Route(f"{PATH}/", index),
        Route(f"{ASSETS}/{{name}}", asset),
    ]


def policy(host: str, stream: StreamInfo) -> str:
    """The page holds a password, so it may talk to the two ports of this server and to nothing else."""
    found = HOST.fullmatch(host)
    places = ["'self'"]
    if stream.address:
        parts = urlsplit(stream.address)
        places += _places(parts.scheme, parts.netloc)
    elif found is not None:
        places += _places("http", f"{found[1]}:{stream.port}")
        if stream.tls_port is not None:
            places += _places("https", f"{found[1]}:{stream.tls_port}")
    return f"default-src 'self'; connect-src {' '.join(places)}; {NOTHING_ELSE}"


def _places(scheme: str, netloc: str) -> list[str]:
    return [f"{scheme}://{netloc}", f"{SCHEMES[scheme]}://{netloc}"]


def _answer(request: Request, page: Page, changes: dict[str, str]) -> Response:
    headers = {**dict(page.headers), **changes}
    if request.headers.get("if-none-match") == page.etag:
        return Response(None, 304, headers)
    if page.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(page.compressed, 200, {**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
    return Response(page.content, 200, headers)
