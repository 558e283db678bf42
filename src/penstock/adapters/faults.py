"""What adapter code raises becomes a failure of this adapter, never the end of the server.

`sys.exit()` raises SystemExit, which like KeyboardInterrupt passes through every `except Exception` and ends an event
loop. Here both become ordinary exceptions. What adapters raise in tasks and callbacks of their own is in `outlive`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from types import TracebackType


class AdapterExit(Exception):
    """An adapter has raised an exception that would end a process or a task; the text names it."""


def is_by_person() -> bool:
    """Whether a KeyboardInterrupt may come from the keyboard.

    Python raises it for a person in the main thread only, and only as long as nobody handles the signal. A server does.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def is_of_adapter(error: BaseException) -> bool:
    """Whether the adapter has raised it by itself: nobody has cancelled the task, or pressed Ctrl-C."""
    match error:
        case Exception():
            return True
        case GeneratorExit():
            return False
        case KeyboardInterrupt():
            return not is_by_person()
        case asyncio.CancelledError():
            # A task of its own that an adapter waits for may have been cancelled: that is not ours.
            task = None
            with contextlib.suppress(RuntimeError):
                task = asyncio.current_task()
            return task is None or not task.cancelling()
    return True


class Contained:
    """`with CONTAINED:` around adapter code: whatever it raises comes out as an Exception."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception) and is_of_adapter(error):
            raise AdapterExit(named(error)) from error


CONTAINED = Contained()


def named(error: BaseException) -> str:
    """The exception with its text, if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
