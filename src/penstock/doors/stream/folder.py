"""The folder that `[pages]` names: from the path of a request to an open file inside it, and what is said about a file.

Everything here may wait for the disk, and runs on threads. How files are sent is in `file_response`.
"""

from __future__ import annotations

import errno
import mimetypes
import os
import stat
from email.utils import formatdate
from io import FileIO

from penstock.config import PagesSection
from penstock.wire.http1 import HttpError

INDEX = "index.html"

# The one name with a dot in front that is meant for others: RFC 8615.
WELL_KNOWN = ".well-known"

UNKNOWN_TYPE = "application/octet-stream"

# What Python's own list does not have, or not in all versions. The system's list is not asked, because no two systems
# have the same.
MORE_TYPES = {
    ".avif": "image/avif",
    ".gz": "application/gzip",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".map": "application/json",
    ".md": "text/markdown",
    ".mjs": "text/javascript",
    ".otf": "font/otf",
    ".ttf": "font/ttf",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_TEXTUAL = ("text/", "application/json", "application/manifest+json", "application/xml", "image/svg+xml")


class Elsewhere(Exception):
    """A directory was asked for by a name without a slash at its end: links in its index would lead astray."""


class Trespass(HttpError):
    """A path that leads out of the folder, or to what the server has no permission to read."""


class Folder:
    """`open` a file by the path of a request that the folder `covers`."""

    def __init__(self, settings: PagesSection) -> None:
        self._directory = settings.directory
        self._begin = settings.path.rstrip("/") + "/"
        self._caching = f"public, max-age={settings.max_age_seconds}" if settings.max_age_seconds else "no-cache"
        self._types = mimetypes.MimeTypes()
        for ending, kind in MORE_TYPES.items():
            self._types.add_type(kind, ending)

    def covers(self, path: str) -> bool:
        return path.startswith(self._begin) or path == self._begin[:-1]

    def open(self, path: str) -> PageFile:
        """The file at a path, which is percent-decoded; raises HttpError, and Elsewhere."""
        if path == self._begin[:-1]:
            raise Elsewhere
        parts = self._parts(path)
        number = self._opened(path, [*parts[:-1], parts[-1] or INDEX])
        try:
            status = os.fstat(number)
            if stat.S_ISDIR(status.st_mode):
                raise Elsewhere
            if not stat.S_ISREG(status.st_mode):
                raise _nothing(path)
            return PageFile(FileIO(number), status, self._type(parts[-1] or INDEX), self._caching)
        except BaseException:
            os.close(number)
            raise

    def _parts(self, path: str) -> list[str]:
        """The names on the way; the last is empty for a directory."""
        parts = path[len(self._begin) :].split("/")
        for part in parts:
            if part in (".", "..") or "\\" in part or "\0" in part:
                raise Trespass(400, f"{path} is not a path to a page")
        if "" in parts[:-1] or any(part.startswith(".") and part != WELL_KNOWN for part in parts):
            raise _nothing(path)
        return parts

    def _opened(self, path: str, parts: list[str]) -> int:
        """The descriptor of what these names lead to."""
        try:
            # Each time: the folder may be a link that leads to the latest of several.
            root = os.path.realpath(self._directory, strict=True)
            found = os.path.realpath(os.path.join(root, *parts), strict=True)
            if os.path.commonpath((root, found)) != root:
                raise Trespass(403, f"{path} leads out of the folder of pages")
            # Nothing is followed any more, and a pipe is not waited for.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return os.open(found, flags)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise Trespass(403, f"The server has no permission to read {path}") from None
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise HttpError(503, "Too many files are open") from None
            raise _nothing(path) from None
        except ValueError:
            raise _nothing(path) from None

    def _type(self, name: str) -> str:
        kind, encoding = self._types.guess_type(name)
        if encoding is not None:
            # Compressed: what is inside is for whoever unpacks it.
            return MORE_TYPES.get(os.path.splitext(name)[1].lower(), UNKNOWN_TYPE)
        return kind or UNKNOWN_TYPE


class PageFile:
    """A file, and what its answer says about it. `close` it."""

    def __init__(self, file: FileIO, status: os.stat_result, kind: str, caching: str) -> None:
        self._file = file
        self.size = status.st_size
        self.modified = int(status.st_mtime)
        # Strong: another content has another time, which file systems keep to the nanosecond, or another length.
        self.etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"'
        self.headers = (
            ("Content-Type", f"{kind}; charset=utf-8" if kind.startswith(_TEXTUAL) else kind),
            ("Cache-Control", caching),
            ("ETag", self.etag),
            ("Last-Modified", formatdate(self.modified, usegmt=True)),
            ("Accept-Ranges", "bytes"),
            ("X-Content-Type-Options", "nosniff"),
        )

    def seek(self, place: int) -> None:
        self._file.seek(place)

    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end of the file."""
        return self._file.read(size) or b""

    def close(self) -> None:
        self._file.close()


def _nothing(path: str) -> HttpError:
    return HttpError(404, f"Not found: {path}")
