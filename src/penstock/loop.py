"""The event loop that a server runs on: uvloop, a dependency on all platforms that have it, else asyncio's.

There is no uvloop for Windows, nor for Pythons other than CPython; everything works without it, with less throughput.
"""

from __future__ import annotations

import asyncio


def new_loop() -> asyncio.AbstractEventLoop:
    """A new loop, not yet running."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def is_stopping() -> bool:
    """Whether the task that asks has been cancelled.

    For loops around a library that waits with `asyncio.wait_for`: with Python 3.11 a cancellation is lost if what is
    waited for comes at that moment, and who has cancelled would wait for ever.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
