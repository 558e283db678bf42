"""The text of an HTTP request body.

Content encoding and charset undone. Specification: appendix C, "HTTP Request Headers".
"""

from __future__ import annotations

import codecs
import re
import zlib

from penstock.wire.http1 import HttpRequest

# Python's names for encodings that no request needs: they are slow, have no fixed meaning, or produce text that UTF-8
# cannot encode.
NOT_CHARSETS = ("charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")

_CHARSET = re.compile(r';[ \t]*charset=(?:"([^"]*)"|([^; \t"]*))', re.IGNORECASE)


class BadBody(Exception):
    """The body is not text; says which header or position is at fault."""


def body_text(request: HttpRequest, limit: int) -> str:
    """Decode the body; raises BadBody."""
    body = _decompressed(request, limit)
    charset = _charset(request)
    try:
        return body.decode(charset)
    except UnicodeDecodeError as error:
        raise BadBody(f"The request body is not valid {charset} at byte {error.start}") from None
    except UnicodeError:
        raise BadBody(f"The request body is not valid {charset}") from None


def _charset(request: HttpRequest) -> str:
    # Not by the email package, which is very slow for a header made for that purpose.
    found = _CHARSET.search(request.headers.get("content-type", ""))
    name = (found[1] or found[2]) if found else ""
    if not name:
        return "utf-8"
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        raise BadBody(f"Content-Type charset {name[:40]!r} is not known") from None
    if not info._is_text_encoding or info.name in NOT_CHARSETS:
        raise BadBody(f"Content-Type charset {name[:40]!r} is not a text encoding")
    return info.name


def _decompressed(request: HttpRequest, limit: int) -> bytes:
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding == "identity":
        return request.body
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise BadBody(f"Content-Encoding {coding[:40]!r} is not supported; gzip, deflate and identity are")
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        body = decompressor.decompress(request.body, limit + 1)
    except zlib.error:
        raise BadBody(f"The request body is not valid {coding}") from None
    if len(body) > limit:
        raise BadBody(f"Request longer than {limit} bytes")
    if not decompressor.eof:
        raise BadBody(f"The {coding} request body is cut short")
    return body
