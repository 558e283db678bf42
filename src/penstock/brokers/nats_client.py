"""What nats-py leaves to who uses it: why a connection failed, and that nothing stays open. Needs the extra `nats`."""

from __future__ import annotations

import asyncio
import ssl

from nats.aio.client import Client
from nats.errors import Error as NatsError

from penstock.brokers.mqtt import words, words_of_refusal
from penstock.log import get

log = get(__name__)

# Seconds to say goodbye, and to who was never let in: nats-py waits for ever if TLS has failed.
LEAVING_SECONDS = 5.0
REFUSED_SECONDS = 0.2


def nats_words(client: Client, error: Exception) -> str:
    """Why a connection has failed."""
    reader = getattr(client._transport, "_io_reader", None)
    cause = None if reader is None else reader.exception()
    if isinstance(cause, ssl.SSLError):
        # What the server has said before it went; the client has only seen that it is gone.
        error = cause
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    wants_certificate = client._server_info.get("tls_verify") and not client.is_connected
    return words_of_refusal(error) if wants_certificate else words(error)


async def leave(client: Client) -> None:
    """Close it. One that was refused is left open by nats-py, or waits for the other side."""
    is_connected = client.is_connected
    if not is_connected:
        _abort(client)
    try:
        async with asyncio.timeout(LEAVING_SECONDS if is_connected else REFUSED_SECONDS):
            await client.close()
    except (NatsError, OSError, TimeoutError) as error:
        log.debug("NATS did not close", reason=str(error))
    _abort(client)


def _abort(client: Client) -> None:
    # With TLS there is one connection within the other.
    for name in ("_io_writer", "_bare_io_writer"):
        writer = getattr(client._transport, name, None)
        if writer is not None:
            writer.transport.abort()
