"""Why there is no connection, in plain words instead of those of the system, TLS and WebSockets."""

from __future__ import annotations

import os
import re
import socket
import ssl

# How asyncio and the system name an error that each of a host's addresses has given.
_NUMBERED = re.compile(r"\[Errno (\d+)\]")

# What OpenSSL says when the peer speaks something else than TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def obstacle(error: BaseException) -> str:
    """One line, without the host: whoever shows it knows which one it is about."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        if error.reason in _NO_TLS:
            return "this port does not use TLS; https:// and wss:// are for ports that do"
        return f"TLS has failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved: {error.strerror}"
    if isinstance(error, ConnectionRefusedError):
        return _REFUSED
    if isinstance(error, ConnectionResetError):
        return "it has closed the connection"
    if isinstance(error, TimeoutError) and error.errno is None:
        return "it does not answer in time"
    if isinstance(error, OSError):
        return _system(error)
    return str(error) or type(error).__name__


_REFUSED = "nothing listens there (connection refused)"


def _system(error: OSError) -> str:
    if error.strerror:
        return error.strerror
    # Several addresses were tried, and each has failed in a way of its own.
    codes = {int(code) for code in _NUMBERED.findall(str(error))}
    if codes:
        return ", ".join(sorted(os.strerror(code) for code in codes)).replace("Connection refused", _REFUSED)
    return str(error) or type(error).__name__
