"""What must not be printed: values of keys whose names say that they are secret, and passwords inside addresses.

Not here: the log, which masks its own fields.
Read next: rendering.py and errors.py, which print values.
"""

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"

# A name that has one of these as a word: `password`, `jwt_secret`, `api-key`, `hubTokens`.
_WORDS = frozenset(
    {
        *("authorization", "cookie", "credential", "credentials", "key", "keys", "passphrase"),
        *("passwd", "password", "passwords", "secret", "secrets", "token", "tokens"),
    }
)
_SEPARATOR = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_PASSWORD_IN_ADDRESS = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]*(?=@)")


def is_secret(name: str) -> bool:
    words = [word.lower() for word in _SEPARATOR.split(name)]
    # How a key is written, as in `key_format`, is not the key.
    return words[-1] != "format" and any(word in _WORDS for word in words)


def masked(value: Any) -> Any:
    """The same value with every secret inside it replaced."""
    if isinstance(value, Mapping):
        return {name: MASK if is_secret(name) else masked(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [masked(entry) for entry in value]
    if isinstance(value, str):
        return _PASSWORD_IN_ADDRESS.sub(rf"\1:{MASK}", value)
    return value
