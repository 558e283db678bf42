"""What HTTP answers have in common: headers for text and against caching, and gzip for clients that accept it."""

from __future__ import annotations

import gzip

from penstock.wire.http1 import HttpRequest

NO_CACHE = (
    ("Cache-Control", "no-store, no-transform, no-cache"),
    ("Pragma", "no-cache"),
    ("Expires", "Thu, 1 Jan 1970 00:00:00 GMT"),
)
TEXT = (
    ("Content-Type", "text/plain; charset=utf-8"),
    # Without it browsers buffer a stream to guess its type.
    ("X-Content-Type-Options", "nosniff"),
    # Asks reverse proxies not to buffer the stream.
    ("X-Accel-Buffering", "no"),
)

# Answers with these codes have no body and no Content-Length.
BODILESS = (204, 304)


def accepts_gzip(request: HttpRequest) -> bool:
    """Whether Accept-Encoding names gzip without refusing it (q=0)."""
    for coding in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def compress_if_worthwhile(request: HttpRequest, body: bytes, mode: str, threshold: int) -> bytes | None:
    """The gzip form of a complete body, None if it should be sent uncompressed."""
    if mode == "off" or not body or (mode == "auto" and len(body) < threshold) or not accepts_gzip(request):
        return None
    compressed = gzip.compress(body, compresslevel=6, mtime=0)
    return compressed if len(compressed) < len(body) else None
