"""Session identifiers: a lookup key, 128 secret bits, and the name of the node that made them.

The key finds the session; the whole identifier is then compared in constant time, so that timing reveals nothing about
the secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hmac import compare_digest

KEY_BYTES = 8
SECRET_BYTES = 16

_FORM = re.compile(r"S([0-9a-f]{16})[0-9a-f]{32}T([A-Za-z0-9-]+)", re.ASCII)


class SessionIds:
    """Makes and reads the identifiers of one node; `entropy(n)` returns n random bytes."""

    def __init__(self, node: str, entropy: Callable[[int], bytes]) -> None:
        self._node = node
        self._entropy = entropy

    def new(self) -> str:
        return f"S{self._entropy(KEY_BYTES + SECRET_BYTES).hex()}T{self._node}"

    def key(self, session_id: str) -> str | None:
        """The lookup key of a well-formed identifier, None for any other text."""
        match = _FORM.fullmatch(session_id)
        return None if match is None else match[1]

    def is_foreign(self, session_id: str) -> bool:
        """Whether another node has made this identifier."""
        match = _FORM.fullmatch(session_id)
        return match is not None and match[2] != self._node


def node_of(session_id: str) -> str | None:
    """The node that has made an identifier; None for any other text."""
    match = _FORM.fullmatch(session_id)
    return None if match is None else match[2]


def public(session_id: str) -> str:
    """What may be shown of an identifier: nobody else has it, and nobody can use the session with it."""
    return session_id[: 1 + 2 * KEY_BYTES]


def same(one: str, other: str) -> bool:
    """Compare two identifiers in constant time, without revealing how much of them is equal."""
    return compare_digest(one.encode(), other.encode())
