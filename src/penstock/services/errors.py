"""Why a server does not start, for the person who starts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.adapters.running import StartFailure
from penstock.doors.errors import DoorError
from penstock.transport.listener import ListenError


class StartError(Exception):
    """The server cannot start; the text is for the person who started it."""


@contextmanager
def start_errors() -> Iterator[None]:
    """What keeps a door, a port or an adapter set from opening keeps the server from starting, in the same words."""
    try:
        yield
    except (DoorError, ListenError, StartFailure) as error:
        raise StartError(str(error)) from error
