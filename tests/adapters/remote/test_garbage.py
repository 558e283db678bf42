"""Any bytes from a remote adapter, good lines with mistakes among them: the server lives on, and takes the next."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from penstock.adapters.remote import RemoteDataAdapter
from penstock.testing import ari_peer
from penstock.wire.ari.version import NEWEST
from tests.adapters.remote.support import RemoteServer, ready
from tests.support.waiting import wait_until

ROUNDS = 40
LINES = 60


def lines(random: Random, identifier: str) -> bytes:
    """Good ones, most of them with a few bytes changed, cut out or put in."""
    good = [
        ari_peer.update(1, "a", identifier, False, {"x": "1", "y": None}, NEWEST),
        ari_peer.update(1, "a", identifier, True, {"x": b"\xff"}, NEWEST),
        ari_peer.end_of_snapshot(1, "a", identifier, NEWEST),
        ari_peer.clear_snapshot(1, "a", identifier, NEWEST),
        ari_peer.declare_differences(1, "a", identifier, {"x": "JM"}, NEWEST),
        f"{identifier}|SUB|V\r\n".encode(),
        f"{identifier}|USB|EF|no\r\n".encode(),
        b"1|RAC|S|user|S|me\r\n",
        b"100|DPI|S|ARI.version|S|1.9.1\r\n",
        ari_peer.KEEPALIVE,
    ]
    made = bytearray()
    for _ in range(LINES):
        line = bytearray(random.choice(good))
        for _ in range(random.choice((0, 1, 1, 2, 5))):
            place = random.randrange(len(line))
            change = random.randrange(3)
            if change == 0:
                line[place] = random.choice(b"|SBVE#$%+0\r\n\x00\xff")
            elif change == 1 and len(line) > 1:
                del line[place]
            else:
                line.insert(place, random.randrange(256))
        made += line
    return bytes(made)


@pytest.mark.parametrize("seed", range(3))
def test_no_bytes_disturb_anybody_else(seed: int) -> None:
    random = Random(seed)
    adapter = RemoteDataAdapter(port=0, retry_millis=60_000)
    with RemoteServer(adapter) as server, server.client() as client:
        client.subscribe(1, "a", "x y", "RAW")
        client.read("SUBOK")
        for _ in range(ROUNDS):
            with ready(adapter.ports[0]) as remote:
                identifier = remote.subscribe("a")
                # The server may have had enough before the end.
                with suppress(ConnectionError):
                    remote.send(lines(random, identifier))
            wait_until(lambda: not adapter.connected, "the loss is not noticed")
        with ready(adapter.ports[0]) as remote:
            identifier = remote.subscribe("a")
            remote.update("a", identifier, x="the end", y="the end")
            while "the end" not in client.read("U"):
                pass
