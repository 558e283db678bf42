"""Why there is no connection: one line of plain words for each thing that can be in the way."""

from __future__ import annotations

import errno
import socket

import pytest

from penstock.obstacles import obstacle

REFUSED = "nothing listens there (connection refused)"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), REFUSED),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "it has closed the connection"),
        (TimeoutError(), "it does not answer in time"),
        (
            socket.gaierror(-2, "Name or service not known"),
            "the host name cannot be resolved: Name or service not known",
        ),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "Network is unreachable"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call failed"),
            REFUSED,
        ),
        (
            OSError("[Errno 101] Connect call failed, [Errno 111] Connect call failed"),
            f"{REFUSED}, Network is unreachable",
        ),
        (ValueError("something else"), "something else"),
        (ValueError(), "ValueError"),
    ],
    ids=["refused", "reset", "timeout", "name", "network", "same", "several", "text", "none"],
)
def test_what_is_in_the_way_is_told_in_one_line(error: BaseException, told: str) -> None:
    assert obstacle(error).startswith(told)
    assert "\n" not in obstacle(error)
