"""A loop that survives its adapters: exceptions in their own tasks, callbacks and threads end only these.

A task that raises SystemExit or KeyboardInterrupt stops the event loop it runs on. Nothing is lost by that: the loop is
simply run again, with all that was scheduled. How adapters' methods are guarded is in `faults`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.adapters.faults import is_of_adapter, named
from penstock.adapters.roster import Roster, labels
from penstock.log import get

log = get(__name__)


def run_to_end(
    main: Coroutine[Any, Any, None], roster: Roster, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Run `main` on a loop of its own until it is done, whatever adapters raise meanwhile."""
    before = threading.excepthook
    threading.excepthook = lambda args: _thread_ended(roster, args)
    runner = asyncio.Runner(loop_factory=new_loop)
    try:
        loop = runner.get_loop()
        task = loop.create_task(main)
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if task.done() or not is_of_adapter(error):
                    raise
                blame(roster, error)
        # Its own outcome, should it have come with the stop of the loop.
        task.result()
    finally:
        try:
            runner.close()
        except (SystemExit, KeyboardInterrupt) as error:
            # One of the tasks that are cancelled at the end; the loop is closed all the same.
            if not is_of_adapter(error):
                raise
            blame(roster, error)
        threading.excepthook = before


def blame(roster: Roster, error: BaseException) -> None:
    """An adapter has raised this outside of all calls: it counts as failed."""
    found = roster.raising(error.__traceback__)
    log.raised("adapter tried to end the server", error, adapter=labels(found), raised=named(error))
    # If several share the code, it is not known which one raised: the wrong one would be marked as failed.
    if len(found) == 1:
        found[0].fail(f"it has raised {named(error)} in a task or callback of its own")


def _thread_ended(roster: Roster, args: threading.ExceptHookArgs) -> None:
    """Python does not report a thread that ends by SystemExit, and prints others without using the log."""
    name = args.thread.name if args.thread is not None else ""
    found = roster.raising(args.exc_traceback)
    log.raised("thread ended by an exception", args.exc_value, thread=name, adapter=labels(found))
