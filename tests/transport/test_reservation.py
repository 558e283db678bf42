"""A port that processes are to share is taken before they are there, and from nobody who has it already."""

from __future__ import annotations

import asyncio
import socket

import pytest
from msgspec.structs import replace

from penstock.config import Config
from penstock.transport.entrance import Entrance, stream_entrances
from penstock.transport.listener import Listener, ListenError
from penstock.transport.reservation import Reservation


def entrance(port: int, host: str = "127.0.0.1") -> Entrance:
    config = Config()
    (found,) = stream_entrances(replace(config, stream=replace(config.stream, host=host, port=port)))
    return found


def test_several_listen_on_a_port_that_was_reserved_and_it_gets_no_connection_itself() -> None:
    async def run() -> None:
        reservation = Reservation([entrance(0)])
        port = reservation.ports["stream"]
        with socket.socket() as early, pytest.raises(ConnectionRefusedError):
            early.connect(("127.0.0.1", port))
        listeners = [await Listener.listen(asyncio.Protocol, "127.0.0.1", port, shared=True) for _ in range(2)]
        assert [each.port for each in listeners] == [port, port]
        for _ in range(8):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
        for each in listeners:
            each.close()
        reservation.release()

    asyncio.run(run())


def test_a_port_that_somebody_listens_on_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            Reservation([entrance(0), entrance(port)])


def test_a_port_that_processes_of_another_server_share_is_refused() -> None:
    async def run() -> None:
        reservation = Reservation([entrance(0)])
        port = reservation.ports["stream"]
        listener = await Listener.listen(asyncio.Protocol, "127.0.0.1", port, shared=True)
        with pytest.raises(ListenError, match="Address already in use"):
            Reservation([entrance(port)])
        listener.close()
        reservation.release()

    asyncio.run(run())


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(ListenError, match=r"cannot listen on host\.invalid:0: "):
        Reservation([entrance(0, "host.invalid")])
