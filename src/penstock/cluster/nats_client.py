"""nats-py's client with some things changed that a fabric cannot do without; importing this needs the extra `cluster`.

Messages of all subscriptions come in the order in which the server sent them, and at once; TLS that is wanted cannot be
declined by a server; a connection can be dropped without asking the other side. Who connects when is in `nats_link`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nats.aio.client import Client
from nats.errors import Error, NoServersError


class OrderedClient(Client):
    """One connection. It is not to connect again by itself: what was under way is lost then, and somebody must know."""

    def __init__(self, arrived: Callable[[str, str, bytes], None], *, needs_tls: bool) -> None:
        super().__init__()
        self._arrived = arrived
        self._needs_tls = needs_tls
        # Messages that came, whether or not anybody wants them.
        self.arrivals = 0
        # What went wrong last.
        self._fault: Exception | None = None

    async def note(self, error: Exception) -> None:
        """For `connect`, as `error_cb`."""
        self._fault = error

    @property
    def why(self) -> Exception | None:
        """Why there is no connection. The original forgets it when no server is left that it could try."""
        return self._fault if isinstance(self.last_error, NoServersError) else self.last_error

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        # The original has a queue and a task for each subscription: what came first on one may be heard after what came
        # later on another, and a beat before the events that it counts is taken for a loss.
        # One with headers is the server's own: that nobody was there to hear what was said.
        self.arrivals += 1
        if sid in self._subs and not headers:
            self._arrived(subject.decode(), reply.decode(), data)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        # The original goes on without TLS, and sends its password, if the server does not insist.
        if initial_connection and self._needs_tls and not info.get("tls_required"):
            if not info.get("tls_available"):
                raise Error("the server does not support TLS")
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    @property
    def is_reading(self) -> bool:
        """The original stays connected after an error that it does not expect, and reads no more."""
        return self._reading_task is not None and not self._reading_task.done()

    def abort(self) -> None:
        """For a server that does not read: the original would wait until it has."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
