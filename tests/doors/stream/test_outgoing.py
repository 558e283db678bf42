"""What leaves the server: frames of the configured size, and what happens to those who never read."""

from __future__ import annotations

import socket
import time

import pytest

from tests.support.background import BackgroundServer
from tests.support.raw import CID, TIMEOUT, Exchange, params

SUBSCRIBE = params(reqId=1, op="add", subId=1, group="a", schema="x", mode="RAW")


@pytest.mark.config({"stream.max_outbound_frame_size": 1_000})
def test_a_long_line_goes_out_in_frames_of_the_configured_size(server: BackgroundServer) -> None:
    with Exchange(server.host, server.port).socket() as client:
        client.create()
        client.send("control", SUBSCRIBE)
        client.read_until("CONF")
        server.update("a", x="x" * 4_500)
        frames = [frame for frame in client.connection.recv_streaming(decode=True) if frame]
        assert [len(frame) for frame in frames] == [1_000] * 4 + [len("U,1,1,\r\n") + 500]
        assert "".join(frames) == f"U,1,1,{'x' * 4_500}\r\n"


@pytest.mark.config({"limits.write_timeout_millis": 200, "session.session_recovery_millis": 0})
def test_a_client_that_takes_no_bytes_is_cut_after_the_write_timeout(server: BackgroundServer) -> None:
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.settimeout(TIMEOUT)
        deaf.connect((server.host, server.port))
        body = f"LS_adapter_set=TEST&LS_cid={CID}\r\n{SUBSCRIBE}".encode()
        head = "POST /lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nHost: x\r\n"
        deaf.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        deadline = time.monotonic() + TIMEOUT
        opened = False
        number = 0
        while not (opened and server.call(_is_empty, server)):
            assert time.monotonic() < deadline, "the deaf client is still connected"
            opened = opened or "a" in server.adapter.subscribed
            number += 1  # The same value again would be sent as "unchanged", in no bytes at all.
            server.update("a", x=f"{number}" * 50_000)


def _is_empty(server: BackgroundServer) -> bool:
    return not server.server.stream.connections and not server.server.kernel.sessions
