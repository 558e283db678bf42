"""Push notifications, which the specification calls MPN: requests, notifications, codes."""

from __future__ import annotations

import pytest

from penstock.wire.tlcp.push import PUSH_OPERATIONS
from tests.conformance.phrases import row
from tests.support.push_lines import push
from tests.support.raw import Exchange


@pytest.mark.parametrize("operation", [row(f"mpn.{name}", name) for name in PUSH_OPERATIONS])
def test_push_notifications_are_refused_with_error_40(exchange: Exchange, operation: str) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        expected = f"REQERR,1,40,LS_op={operation}: the MPN module is disabled"
        line = f"{push(operation)}&LS_session={stream.session}"
        assert exchange.request("control", line) == [expected]
        socket.send("control", line)
        assert socket.read_line() == expected
