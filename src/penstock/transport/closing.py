"""How a connection is closed without losing its last bytes.

Closing a socket that still has unread input makes the system reset it, and the peer may never see what was written
last. So the sending side is closed first; what the peer still sends is read and dropped until it closes too, or
a timeout ends it.
"""

from __future__ import annotations

import asyncio

# Seconds a peer has to close its side, once it has been sent everything.
LINGER = 1.0


def close_gently(transport: asyncio.Transport, patience: float) -> asyncio.TimerHandle | None:
    """Close after everything is written, for which a slow peer has `patience` seconds.

    The caller drops what still comes in, and cancels the timer when the connection is lost.
    """
    if transport.is_closing():
        return None
    loop = asyncio.get_running_loop()
    if not transport.can_write_eof():
        # TLS: its closing alert is sent with the last bytes.
        transport.close()
        return loop.call_later(patience, transport.abort)
    try:
        transport.write_eof()
    except OSError:
        transport.abort()
        return None
    return loop.call_later(LINGER, _end, transport, loop.time() + patience)


def _end(transport: asyncio.Transport, deadline: float) -> None:
    loop = asyncio.get_running_loop()
    if transport.get_write_buffer_size() and loop.time() < deadline:
        loop.call_later(LINGER, _end, transport, deadline)
    else:
        transport.abort()
