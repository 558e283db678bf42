"""The witness of the doors stands beside the servers that are attacked here, too."""

from __future__ import annotations

from tests.doors.conftest import errors, witness

__all__ = ["errors", "witness"]
