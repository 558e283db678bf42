"""The event loop that a server runs on: uvloop where it is installed, which it is wherever it exists, else asyncio's.

uvloop does not exist for Windows and for other Pythons than CPython; everything works without it, with less throughput.
"""

from __future__ import annotations

import asyncio


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop that nothing runs on yet."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
