"""The built web pages, read once into memory and served with the right type, compressed for clients that accept it.

They are built from web/ by `make page`; without them the server says so instead of a bare 404.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import mimetypes
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGES = Path(__file__).parents[2] / "pages"

# The documentation, if it was built (`make docs`; packages have it), and where the demo has it.
SITE = Path(__file__).parents[2] / "site"
DOCS_PATH = "/docs"
NOT_BUILT = b"The pages are not built. Run `make page` in the source tree and restart the server.\n"
DOCS_NOT_BUILT = b"The documentation is not built. Run `make docs` in the source tree and restart the server.\n"

# Types worth compressing; images already are.
_TEXTUAL = ("text/", "application/javascript", "application/json", "image/svg+xml")
_POLICY = "default-src 'self'; connect-src 'self' ws: wss:{places}; frame-ancestors 'none'"
_POLICY_HEADER = "Content-Security-Policy"

# The header of this name, if it makes sense: a name or an address, and perhaps a port.
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d*)?")

# Where the demo's pages read `ApiPlace`.
DEMO_FACTS = "/demo.json"


@dataclass(frozen=True, slots=True)
class ApiPlace:
    """Where pages of the demo find the API port, on the host that they come from; None where there is none."""

    port: int | None
    tls_port: int | None = None
    # Whether the dashboard is there.
    dashboard: bool = False

    def facts(self, docs: bool) -> bytes:
        """As JSON, with whether the documentation has a place; there it may say that it is not built."""
        found = {"api_port": self.port, "api_tls_port": self.tls_port, "dashboard": self.dashboard, "docs": docs}
        return json.dumps(found).encode()

    def headers(self, page: Page, host: str) -> tuple[tuple[str, str], ...]:
        """Those of a page, which may connect to the API port as well."""
        found = _HOST.fullmatch(host)
        places = (
            ""
            if found is None
            else "".join(
                [
                    f" {scheme}://{found[1]}:{port}"
                    for scheme, port in (("http", self.port), ("https", self.tls_port))
                    if port is not None
                ]
            )
        )
        policy = _POLICY.format(places=places)
        return tuple([(name, policy if name == _POLICY_HEADER else value) for name, value in page.headers])


@dataclass(frozen=True, slots=True)
class Page:
    """One file, ready to be sent."""

    content: bytes
    compressed: bytes | None
    headers: tuple[tuple[str, str], ...]
    etag: str


class Pages:
    """All files below a directory by their URL path, but not those of one folder that is served elsewhere."""

    def __init__(self, directory: Path = PAGES, without: str | None = None) -> None:
        self._pages: dict[str, Page] = {}
        for file in sorted(directory.rglob("*")) if directory.is_dir() else ():
            path = file.relative_to(directory)
            if file.is_file() and path.parts[0] != without:
                self._pages["/" + path.as_posix()] = _page(file)

    @property
    def are_built(self) -> bool:
        return "/index.html" in self._pages

    def find(self, path: str) -> Page | None:
        """The page at a path; a path that ends in a slash is that directory's index."""
        return self._pages.get(path + "index.html" if path.endswith("/") else path)


def _page(file: Path) -> Page:
    state = file.stat()
    return _read(file, state.st_mtime_ns, state.st_size)


@cache
def _read(file: Path, modified: int, size: int) -> Page:
    """Once for each state of a file, because the port and the dashboard share them, and compressing is slow."""
    content = file.read_bytes()
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    textual = kind.startswith(_TEXTUAL)
    etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    # Built assets have a hash in their name; the page itself must be revalidated.
    caching = "public, max-age=31536000, immutable" if file.parent.name == "assets" else "no-cache"
    headers = (
        ("Content-Type", f"{kind}; charset=utf-8" if textual else kind),
        ("Cache-Control", caching),
        ("ETag", etag),
        ("X-Content-Type-Options", "nosniff"),
        (_POLICY_HEADER, _POLICY.format(places="")),
        ("Referrer-Policy", "same-origin"),
    )
    return Page(content, gzip.compress(content, mtime=0) if textual else None, headers, etag)
