"""Who may have push notifications of the demo: clients on its machine, and nobody who comes through a proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cut_proxy import CutProxy
from tests.support.process import ServerProcess
from tests.support.push_lines import push
from tests.support.raw import Exchange

APPLICATION = "com.mydomain.myapp"
SETTINGS = {"push.enabled": True, f'push.apple."{APPLICATION}".service_level': "test"}
REFUSED = "REQERR,1,43,PN_appId: The demo has push notifications for clients on its own machine only"


def registered(port: int) -> str:
    """The answer to a request for a device."""
    with Exchange("127.0.0.1", port).socket() as socket:
        socket.create("WELCOME", send_sync=False)
        socket.send("control", push("register", appId=APPLICATION))
        return socket.read_until("REQOK", "REQERR")[-1]


@pytest.mark.config(SETTINGS)
def test_a_client_on_this_machine_may_register_a_device(process: ServerProcess) -> None:
    assert registered(process.port) == "REQOK,1"


@pytest.mark.config(SETTINGS)
def test_whoever_comes_through_a_plain_tcp_proxy_may_not(process: ServerProcess) -> None:
    with CutProxy("127.0.0.1", process.port) as proxy:
        assert registered(proxy.port) == REFUSED


def test_a_server_that_others_can_reach_registers_nobody(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, {**SETTINGS, "stream.host": "0.0.0.0"}) as process:
        assert registered(process.port) == REFUSED
