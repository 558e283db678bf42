"""How a connection is closed without losing its last bytes, and whether its peer has closed it.

Closing a socket that still has unread input makes the system reset it, and the peer may never see what was written
last. So the sending side is closed first; what the peer still sends is read and dropped until it closes too, or
a timeout ends it.
"""

from __future__ import annotations

import asyncio
import select

# The peer sends no more; macOS does not tell it apart.
_ENDED = getattr(select, "POLLRDHUP", 0)

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


def is_broken(transport: asyncio.Transport, if_ended: bool) -> bool:
    """Whether the peer has broken the connection off, which the event loop may not have come to read yet.

    If `if_ended`, also whether it has closed its sending side.
    """
    if transport.is_closing():
        return True
    # Errors and a connection closed on both sides are reported whatever is asked for.
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _ENDED if if_ended else 0)
    return bool(poll.poll(0))
