"""The definition of a thing or a feature: which model describes it. Only its form is checked; nothing is looked up.

    namespace:name:version, each of letters, digits, `_`, `-` and `.`, or a URL of http or https

Upstream documentation: "Things", definition.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from penstock.wire.ditto.thing_errors import DEFINITION_INVALID

_IDENTIFIER = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+", re.ASCII)
_NOT_IN_URL = re.compile(r"[\s\x00-\x1f\x7f<>\"{}|\\^`]")


def check_definition(text: str) -> None:
    """Raises `things:definition.identifier.invalid`."""
    if _IDENTIFIER.fullmatch(text) is None and not _is_url(text):
        raise DEFINITION_INVALID.of(text)


def _is_url(text: str) -> bool:
    if _NOT_IN_URL.search(text):
        return False
    try:
        parts = urlsplit(text)
        # Raises for an invalid port.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
