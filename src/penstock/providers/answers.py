"""What answers of all providers have in common: a reason as JSON, and a time to wait. Not here: what a status means."""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from typing import Any

# Reasons come from outside and end up in logs: these are words of the provider's documentation, and short.
_REASON = re.compile(r"[A-Za-z0-9_ .:-]{1,100}")
# A provider that wants to be left alone for longer is asked again nevertheless.
LONGEST_WAIT = 3_600.0


def json_object(body: bytes) -> dict[str, Any]:
    """Empty, if it is no JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def reason_word(found: object) -> str:
    """Empty, unless it is a word as providers give for a reason; anything else may repeat a token or a payload."""
    return found if isinstance(found, str) and _REASON.fullmatch(found) else ""


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds, from either form of the header; None if there is none that can be read."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdecimal():
        return min(float(text), LONGEST_WAIT)
    try:
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(moment - now, 0.0), LONGEST_WAIT)
