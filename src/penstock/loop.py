"""The event loop that a server runs on: uvloop where it is installed, which it is wherever it exists, else asyncio's.

uvloop does not exist for Windows and for other Pythons than CPython; everything works without it, with less throughput.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
