"""The kernel of a server with the loop turns that it runs in.

It has no port and no file: it runs from its making on, and stands still when the doors have drained.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import fields

from penstock.config import Config
from penstock.doors.stream.turns import Turns
from penstock.kernel.identity import SessionIds
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.services.service import Service


class KernelService(Service):
    """Made on the event loop."""

    name = "kernel"

    def __init__(self, config: Config) -> None:
        self.turns = Turns(asyncio.get_running_loop())
        ids = SessionIds(config.server.node, os.urandom)
        self.kernel = Kernel(time.monotonic, self.turns, ids, session_limits(config))
        self.turns.run_kernel(self.kernel)

    async def drain(self) -> None:
        self.turns.stop()


def session_limits(config: Config) -> SessionLimits:
    """The kernel's limits carry the names of the configuration's keys."""
    known = {field.name for field in fields(SessionLimits)}
    found = {}
    for section in (config.session, config.limits):
        found.update({name: getattr(section, name) for name in section.__struct_fields__ if name in known})
    return SessionLimits(**found)
