"""What names may be: those of accounts and domains, which people see, and identifiers, which are in frames.

Nothing is stored here: see `store` and `domains`.
"""

from __future__ import annotations

import re

from penstock.store.errors import BadName

NAME = re.compile(
    r"[^\s\x00-\x1f\x7f\ud800-\udfff]([^\x00-\x1f\x7f\ud800-\udfff]{0,253}[^\s\x00-\x1f\x7f\ud800-\udfff])?"
)
IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{8}")
_WHAT = {
    NAME: "1 to 255 printable characters without spaces around them",
    IDENTIFIER: "8 characters of A-Z, a-z, 0-9, _ and -",
}


def checked(field: str, value: str, pattern: re.Pattern[str] = NAME) -> str:
    """Raises BadName."""
    if not pattern.fullmatch(value):
        raise BadName(f"{field}: {value!r:.60} is not {_WHAT[pattern]}")
    return value


def domain_name(domain: str, field: str = "domain") -> str:
    """In lower case. Raises BadName."""
    # Checked as it is kept: some letters become two in lower case.
    return checked(field, domain.lower())
