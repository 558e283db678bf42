"""A client of a TLEX hub that sends V-Log: the connection of one session, whose messages are lines.

For controllers that cannot connect by themselves: whoever reads their V-Log passes it on. Read next: docs/tlex.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from types import TracebackType

from penstock.client.tlex_api import TlexError, TlexUnreachable
from penstock.client.trust import trusting
from penstock.obstacles import obstacle
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.rest import SessionAnswer
from penstock.wire.tlex.vlog import LINE_END, MAX_LINE, is_message
from penstock.wire.tlex.vocabulary import SecurityMode

# A keep-alive is sent this many times as often as the hub must hear something.
KEEP_ALIVES_A_TIMEOUT = 3

# Seconds for a connection; the session would not live longer without one.
PATIENCE = 5.0


async def connect_vlog(session: SessionAnswer, context: ssl.SSLContext | None = None) -> VlogStream:
    """Connect to a session of protocol VLOG that has just been created; raises TlexError."""
    listener = session.details.listener
    place = f"{listener.host}:{listener.port}"
    if session.details.security_mode is not SecurityMode.TLS:
        context = None
    elif context is None:
        context = trusting()
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(listener.host, listener.port, ssl=context)
            writer.write(session.token.encode() + LINE_END)
            if await reader.readexactly(len(PREAMBLE)) != PREAMBLE:
                raise TlexError("the hub speaks another version of the protocol")
    except TimeoutError as error:
        raise TlexUnreachable(f"{place}: it has not answered for {PATIENCE:g} s") from error
    except asyncio.IncompleteReadError as error:
        raise TlexUnreachable(f"{place}: it has closed the connection") from error
    except OSError as error:
        raise TlexUnreachable(f"{place}: {obstacle(error)}") from error
    return VlogStream(session, reader, writer)


class VlogStream:
    """Ends with the connection; then `reason` is what the hub has said, if anything."""

    def __init__(self, session: SessionAnswer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reason: str | None = None
        # Whether the hub wants a new session instead of this one.
        self.is_to_reconnect = False
        self.closed = False
        self._pause = session.details.keep_alive_timeout.total_seconds() / KEEP_ALIVES_A_TIMEOUT
        self._reader = reader
        self._writer = writer
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._keep_alive())]

    async def send(self, message: str) -> None:
        """One message, in hexadecimal. Raises ValueError if it is none, TlexError if the connection is gone."""
        line = message.strip().encode("ascii", "replace")
        if not is_message(line) or len(line) > MAX_LINE:
            raise ValueError(f"{message.strip()[:60]!r} is no V-Log message: 2 to {MAX_LINE} hexadecimal digits")
        if self.closed or self.is_to_reconnect:
            raise TlexError(f"the connection is closed: {self.reason or 'without a reason'}")
        self._writer.write(line + LINE_END)
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                word, _, reason = line.decode("ascii", "replace").strip().partition(" ")
                if word == "BYE":
                    self.reason = reason
                elif word == "RECONNECT":
                    self.is_to_reconnect = True
                    self.reason = "the hub wants a new session"
        except (OSError, ValueError) as error:
            self.reason = str(error)
        finally:
            self.closed = True
            self._writer.close()

    async def _keep_alive(self) -> None:
        while not self.closed:
            await asyncio.sleep(self._pause)
            self._writer.write(LINE_END)

    async def close(self) -> None:
        """What was sent is still delivered: the hub closes when it has read all of it."""
        if not self.closed:
            with contextlib.suppress(OSError):
                self._writer.write_eof()
            await asyncio.wait(self._tasks[:1], timeout=PATIENCE)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self.closed = True
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def __aenter__(self) -> VlogStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
