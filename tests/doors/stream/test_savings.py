"""What keeps sessions cheap, as far as sockets show it; deadlines and keep-alives: tests/kernel/test_savings.py."""

from __future__ import annotations

from penstock.doors.stream.websocket import WebSocketConnection
from penstock.kernel.item import Mode
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange


def test_names_that_many_clients_subscribe_to_are_kept_once(server: BackgroundServer) -> None:
    with Exchange(server.host, server.port).socket() as one, Exchange(server.host, server.port).socket() as other:
        for socket in (one, other):
            socket.create()
            socket.send(
                "control", "LS_reqId=1&LS_op=add&LS_subId=1&LS_group=a_long_item_name&LS_schema=a_field&LS_mode=RAW"
            )
            socket.read_until("CONF")
        first, second = (session.subscriptions[1].request for session in server.server.kernel.sessions.values())
        assert first.mode is Mode.RAW
        assert first.grant.items[0].name is second.grant.items[0].name
        assert first.grant.fields[0] is second.grant.fields[0]


def test_a_session_and_its_socket_have_no_dictionary(server: BackgroundServer) -> None:
    with Exchange(server.host, server.port).socket() as socket:
        socket.create()
        (session,) = server.server.kernel.sessions.values()
        assert not hasattr(session, "__dict__")
        assert isinstance(session.channel, WebSocketConnection)
        assert not hasattr(session.channel, "__dict__")
