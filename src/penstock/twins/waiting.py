"""A command and its outcome for code that awaits: the only place of this room that knows asyncio."""

from __future__ import annotations

import asyncio

from penstock.twins.caller import Caller
from penstock.twins.decision import Outcome
from penstock.twins.registry import Twins
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.twin import Command, RetrieveSeveral


async def ask(twins: Twins, command: Command | RetrieveSeveral, caller: Caller) -> Outcome:
    """The outcome, once it is on the disk; raises the error to answer with. Cancelling it takes nothing back."""
    waiting: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def answer(result: Outcome | DittoError) -> None:
        if waiting.done():
            return
        if isinstance(result, DittoError):
            waiting.set_exception(result)
        else:
            waiting.set_result(result)

    twins.submit(command, caller, answer)
    return await waiting
