"""Penstock: a real-time data server with one kernel and several protocol doors.

Here: the version, nothing else. Everything is imported from the room where it lives (docs/architecture.md).
"""

__version__ = "0.1.0"
