"""The site of the Ditto door, whose things are items here."""

from __future__ import annotations

from tests.doors.ditto.conftest import alice, site

__all__ = ["alice", "site"]
