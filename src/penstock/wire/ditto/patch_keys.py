"""Keys of merge patches that are regular expressions: `"{{ ~2022-.*~ }}": null` deletes all keys that match.

Only expressions that are matched in little time are accepted: a pattern comes from a client, and is matched on the
server's loop. Upstream documentation: "HTTP API concepts", removing fields with a regex.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.errors import DittoError, shown
from penstock.wire.ditto.pointer import Absent
from penstock.wire.ditto.thing_errors import MERGE_INVALID

_KEY = re.compile(r"\{\{\s*(?:~(.*)~|/(.*)/)\s*\}\}", re.DOTALL)

# Characters of an expression, and its repetitions. With two of them the time is the square of a key's length at most.
MAX_LENGTH: Final = 200
MAX_REPEATS: Final = 2

# Keys that are longer are not matched.
MAX_KEY: Final = 512

# A character, a class, or what stands for one; then how often it may come. Groups cannot be repeated.
_ATOM = re.compile(
    r"(?:\\[dDwWsSbB]|\\[^a-zA-Z0-9]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\]{}*+?])(\*|\+|\{\d{1,3},?\d{0,3}\}|\?)?",
    re.DOTALL,
)
_ALLOWED: Final = (
    f"Allowed: up to {MAX_LENGTH} characters; letters, '.', classes such as [a-z] and \\d, alternatives, groups that"
    f" are not repeated, and up to {MAX_REPEATS} of '*', '+' and '{{m,n}}'."
)


def is_pattern(key: str) -> bool:
    return key.startswith("{{") and key.endswith("}}") and _KEY.fullmatch(key) is not None


def check_pattern_keys(patch: Json) -> None:
    """Raises `things:merge.invalid` for an expression that is not accepted, or one that does not delete."""
    if type(patch) is not dict:
        return
    for key, value in patch.items():
        if is_pattern(key):
            _pattern(key)
            if value is not None:
                raise _invalid(key, "A regular expression can only delete: its value must be null.")
        else:
            check_pattern_keys(value)


def expanded_patch(patch: Json, current: Json | Absent) -> Json:
    """The patch with the keys that its expressions match in what is there now. What it sets itself is not deleted."""
    if type(patch) is not dict:
        return patch
    result: dict[str, Json] = {}
    known = current if type(current) is dict else {}
    for key, value in patch.items():
        if is_pattern(key):
            pattern = _pattern(key)
            for name in known:
                if name not in patch and len(name) <= MAX_KEY and pattern.fullmatch(name) is not None:
                    result[name] = None
        else:
            result[key] = expanded_patch(value, known.get(key))
    return result


def has_patterns(patch: Json) -> bool:
    return type(patch) is dict and any(is_pattern(key) or has_patterns(value) for key, value in patch.items())


@lru_cache(maxsize=256)
def quick_pattern(text: str) -> re.Pattern[str] | None:
    """A regular expression that takes little time for texts of up to `MAX_KEY` characters; None for any other."""
    if len(text) > MAX_LENGTH:
        return None
    at = repeats = 0
    while at < len(text):
        found = _ATOM.match(text, at)
        if found is None or (found[0][0] == ")" and found[1]) or text.startswith("(?", at):
            return None
        if found[1] is not None and found[1] != "?":
            repeats += 1
        at = found.end()
    if repeats > MAX_REPEATS:
        return None
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return None


def _pattern(key: str) -> re.Pattern[str]:
    found = _KEY.fullmatch(key)
    assert found is not None
    text = found[1] if found[1] is not None else found[2]
    pattern = quick_pattern(text)
    if pattern is None:
        raise _invalid(key, f"The regular expression '{shown(text)}' is not accepted. {_ALLOWED}")
    return pattern


def _invalid(key: str, told: str) -> DittoError:
    return MERGE_INVALID.of(description=f"The key '{shown(key)}': {told}")
