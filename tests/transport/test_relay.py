"""Relays between a client with TLS and a neighbour: what is left of one that has ended."""

from __future__ import annotations

import asyncio
import gc
import ssl
from types import SimpleNamespace
from typing import cast

import uvloop

from penstock.certificates import CertificateFiles
from penstock.transport.listener import Listener
from penstock.transport.port import HttpPort
from penstock.transport.relay import Relay
from penstock.transport.secured import SecuredTransport
from penstock.transport.tls import server_context
from tests.support.tls import CERTIFICATES, trusting_context

FILES = CertificateFiles(str(CERTIFICATES / "certificate.pem"), str(CERTIFICATES / "private_key.pem"))
PATIENCE = 20.0


def port() -> HttpPort:
    """What a relay needs of one. A slow client may take longer than this test."""
    config = SimpleNamespace(
        limits=SimpleNamespace(write_timeout_millis=1_000_000), stream=SimpleNamespace(max_unsent_bytes=16_384)
    )
    connections: set[object] = set()
    census = SimpleNamespace(leave=lambda address: None)
    return cast(
        HttpPort,
        SimpleNamespace(config=config, connections=connections, forget=connections.discard, connection_census=census),
    )


class Arriving(asyncio.Protocol):
    """Every connection is relayed to a neighbour that answers and ends it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._task = asyncio.get_running_loop().create_task(self._hand_over(cast(asyncio.Transport, transport)))

    async def _hand_over(self, transport: asyncio.Transport) -> None:
        relay = Relay(port(), transport, "")
        theirs = await relay.prepare()
        transport.set_protocol(relay)
        relay.start()
        with theirs:
            theirs.send(b"answer")


def alive() -> int:
    return sum(type(each) is SecuredTransport for each in gc.get_objects())


def test_nothing_is_left_of_a_relay_that_the_neighbour_has_ended() -> None:
    async def scenario() -> None:
        listener = await Listener.listen(
            Arriving, "127.0.0.1", 0, tls=server_context(FILES), handshake_seconds=PATIENCE
        )
        before = alive()
        context: ssl.SSLContext = trusting_context()
        for _ in range(3):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", listener.port, ssl=context, server_hostname="localhost"
            )
            assert await reader.read() == b"answer"
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(PATIENCE):
            while alive() > before:
                await asyncio.sleep(0.01)
                gc.collect()
        listener.close()

    uvloop.run(scenario())
