"""The answers to requests: OK, ERROR, SYNC ERROR, END, and the header block that opens a stream connection.

What follows the header on a stream is in `codec`. Specification: the "Response" parts of 4.1 to 4.4.
"""

from __future__ import annotations

from penstock.wire.numbers import decimal
from penstock.wire.text6.values import escape_message

OK = b"OK\r\n"
SYNC_ERROR = b"SYNC ERROR\r\n"
PREAMBLE = b"Preamble:sending placeholder data\r\n"


def error(code: int, message: str) -> bytes:
    """A refused request; the message becomes one line of ASCII."""
    return f"ERROR\r\n{int(code)}\r\n{escape_message(message)}\r\n".encode("ascii")


def ended(code: int | None) -> bytes:
    """For a bind: the session has been closed on the server side. In this answer the cause has its own line."""
    return b"END\r\n" if code is None else b"END\r\n%d\r\n" % code


def header(
    session_id: str,
    keepalive_millis: int,
    max_bandwidth: float | None,
    manages_bandwidth: bool,
    *,
    control_address: str = "",
    request_limit: int | None = None,
    server_name: str | None = None,
    preamble: int = 0,
) -> bytes:
    """The block up to and including the empty line; `preamble` is the least number of bytes of padding.

    `max_bandwidth` is what the server imposes, in kbit/s, whatever the client has asked for.
    """
    lines = ["OK", f"SessionId:{session_id}"]
    if control_address:
        lines.append(f"ControlAddress:{escape_message(control_address)}")
    lines.append(f"KeepaliveMillis:{keepalive_millis}")
    lines.append(f"MaxBandwidth:{_bandwidth(max_bandwidth, manages_bandwidth)}")
    if request_limit is not None:
        lines.append(f"RequestLimit:{request_limit}")
    if server_name is not None:
        lines.append(f"ServerName:{escape_message(server_name)}")
    block = "".join([f"{line}\r\n" for line in lines]).encode("ascii")
    return block + PREAMBLE * -(-preamble // len(PREAMBLE)) + b"\r\n"


def _bandwidth(limit: float | None, manages: bool) -> str:
    """0 and -1 both mean no limit; with -1 the client may not set one either."""
    if limit is not None:
        return decimal(limit)
    return "0" if manages else "-1"
