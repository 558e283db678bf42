"""A limit that an administrator has set for one session or subscription, in place of what the metadata adapter allows.

What the client asks for holds below it as before. Specification: General Concepts 3.5, the note on later requests.
"""

from __future__ import annotations


class Ruling:
    """`limit` in kbit/s or updates a second; None means no limit, whatever the metadata adapter allows."""

    __slots__ = ("limit",)

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
