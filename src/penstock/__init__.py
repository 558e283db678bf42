"""Penstock: a real-time data server with one kernel and several protocol doors.

Here: the version, and the build, which has to be chosen before the first module of a compiled room is imported.
Everything else is imported from the room where it lives (docs/architecture.md).
"""

from penstock.build.choice import choose

__version__ = "0.1.0"

BUILD = choose()
