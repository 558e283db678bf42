"""The built web pages, read once into memory and served with the right type, compressed for clients that accept it.

They are built from web/ by `make page`; without them the server says so instead of a bare 404.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGES = Path(__file__).parents[2] / "pages"
NOT_BUILT = b"The pages are not built. Run `make page` in the source tree and restart the server.\n"

# Types worth compressing; images already are.
_TEXTUAL = ("text/", "application/javascript", "application/json", "image/svg+xml")
_POLICY = "default-src 'self'; connect-src 'self' ws: wss:; frame-ancestors 'none'"


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
        ("Content-Security-Policy", _POLICY),
        ("Referrer-Policy", "same-origin"),
    )
    return Page(content, gzip.compress(content, mtime=0) if textual else None, headers, etag)
