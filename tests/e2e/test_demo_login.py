"""The demo's login, whose password everybody knows: for clients on this machine, not for those behind a proxy on it."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.cut_proxy import CutProxy
from tests.support.process import ServerProcess
from tests.support.raw import CID

PATIENCE = 30.0
BASIC = {"Authorization": "Basic " + base64.b64encode(b"ditto:ditto").decode()}


def status(port: int, **headers: str) -> int:
    """Of a request for a thing that is not there."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(f"http://127.0.0.1:{port}/api/2/things/ns:none", headers={**BASIC, **named})
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def opens_socket(port: int) -> bool:
    try:
        with connect(
            f"ws://127.0.0.1:{port}/ws/2", additional_headers=BASIC, open_timeout=PATIENCE, proxy=None
        ) as socket:
            socket.send("START-SEND-EVENTS")
            return socket.recv(PATIENCE) == "START-SEND-EVENTS:ACK"
    except InvalidStatus as refusal:
        return refusal.response.status_code != 401


def opens_session(port: int) -> bool:
    asked = f"LS_adapter_set=DITTO&LS_polling=true&LS_user=ditto&LS_password=ditto&LS_cid={CID}".encode()
    address = f"http://127.0.0.1:{port}/lightstreamer/create_session.txt?LS_protocol=TLCP-2.4.0"
    with build_opener(ProxyHandler({})).open(Request(address, asked), timeout=PATIENCE) as answer:
        return bool(answer.read().startswith(b"CONOK,"))


def test_a_client_on_this_machine_is_let_in(process: ServerProcess) -> None:
    assert status(process.api_port) == 404
    assert opens_socket(process.api_port)
    assert opens_session(process.port)


def test_whoever_comes_through_a_plain_tcp_proxy_on_this_machine_is_not(process: ServerProcess) -> None:
    with CutProxy("127.0.0.1", process.api_port) as api, CutProxy("127.0.0.1", process.port) as stream:
        assert status(api.port) == 401
        assert status(api.port, Host="www.example.com") == 401
        assert not opens_socket(api.port)
        assert not opens_session(stream.port)


def test_whoever_a_proxy_speaks_for_is_not(process: ServerProcess) -> None:
    assert status(process.api_port, X_Forwarded_For="127.0.0.1") == 401
    assert status(process.api_port, Forwarded="for=10.0.0.1") == 401


@pytest.mark.parametrize("key", ["stream.host", "api.host"])
def test_a_server_that_others_can_reach_lets_nobody_in_with_it(tmp_path: Path, key: str) -> None:
    with ServerProcess(tmp_path, {key: "0.0.0.0"}) as process:
        assert status(process.api_port) == 401
        assert not opens_socket(process.api_port)
        assert not opens_session(process.port)
