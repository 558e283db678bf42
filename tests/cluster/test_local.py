"""The fabric over Unix sockets: payloads whole and in order, names, reconnecting, and nodes that do not read."""

from __future__ import annotations

import asyncio
import functools
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.cluster import local
from penstock.cluster.local import SOCKET, LocalEdge, LocalHub
from penstock.loop import new_loop

PATIENCE = 10.0


class HubEnd:
    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []

    def received(self, edge: str, payload: bytes) -> None:
        self.heard.append((edge, payload))

    def lost(self, edge: str) -> None:
        self.heard.append((edge, "lost"))


class EdgeEnd:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def connected(self) -> None:
        self.heard.append("connected")

    def received(self, payload: bytes) -> None:
        self.heard.append(payload)

    def lost(self) -> None:
        self.heard.append("lost")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 because it waits for another end of a socket
            await asyncio.sleep(0.001)


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments: object, **fixtures: object) -> None:
        async def main() -> None:
            await test(*arguments, **fixtures)

        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())

    return run


@on_loop
async def test_payloads_arrive_whole_and_in_order_whatever_their_size(tmp_path: Path) -> None:
    hub, hub_end = LocalHub(tmp_path), HubEnd()
    edge, edge_end = LocalEdge(tmp_path, "w1"), EdgeEnd()
    await hub.open(hub_end, 1)
    await edge.open(edge_end)
    await until(lambda: edge_end.heard == ["connected"])
    payloads = [b"", b"x", b"\0" * 70_000, b"end", bytes(range(256)) * 20_000]
    for payload in payloads:
        edge.send(payload)
    await until(lambda: len(hub_end.heard) == len(payloads))
    assert hub_end.heard == [("w1", payload) for payload in payloads]
    for payload in payloads:
        hub.send("w1", payload)
    await until(lambda: len(edge_end.heard) == 1 + len(payloads))
    assert edge_end.heard[1:] == payloads
    await edge.close()
    await until(lambda: hub_end.heard[-1] == ("w1", "lost"))
    await hub.close()


@on_loop
async def test_a_frame_may_come_byte_by_byte(tmp_path: Path) -> None:
    hub, hub_end = LocalHub(tmp_path), HubEnd()
    await hub.open(hub_end, 1)
    _, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET))
    for byte in struct.pack(">I", 2) + b"w7" + struct.pack(">I", 3) + b"abc":
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    await until(lambda: hub_end.heard == [("w7", b"abc")])
    writer.close()
    await until(lambda: hub_end.heard[-1] == ("w7", "lost"))
    await hub.close()


@on_loop
async def test_an_edge_waits_for_a_hub_and_finds_the_next_one(tmp_path: Path) -> None:
    edge, edge_end = LocalEdge(tmp_path, "w1"), EdgeEnd()
    await edge.open(edge_end)
    edge.send(b"nobody is there")
    for number in range(3):
        hub, hub_end = LocalHub(tmp_path), HubEnd()
        await hub.open(hub_end, number)
        await until(lambda: edge_end.heard[-1:] == ["connected"])
        edge.send(b"%d" % number)
        await until(lambda hub_end=hub_end, number=number: hub_end.heard == [("w1", b"%d" % number)])  # type: ignore[misc]
        await hub.close()
        await until(lambda: edge_end.heard[-1:] == ["lost"])
    assert edge_end.heard == ["connected", "lost"] * 3
    await edge.close()


@on_loop
async def test_a_socket_that_a_killed_hub_has_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / SOCKET))
    hub, hub_end = LocalHub(tmp_path), HubEnd()
    await hub.open(hub_end, 1)
    edge, edge_end = LocalEdge(tmp_path, "w1"), EdgeEnd()
    await edge.open(edge_end)
    await until(lambda: edge_end.heard == ["connected"])
    await edge.close()
    await hub.close()
    assert not (tmp_path / SOCKET).exists()


@on_loop
async def test_an_edge_that_comes_again_is_lost_before_it_counts(tmp_path: Path) -> None:
    hub, hub_end = LocalHub(tmp_path), HubEnd()
    await hub.open(hub_end, 1)
    first, first_end = LocalEdge(tmp_path, "w1"), EdgeEnd()
    await first.open(first_end)
    await until(lambda: first_end.heard == ["connected"])
    first.send(b"first")
    await until(lambda: hub_end.heard == [("w1", b"first")])
    with socket.socket(socket.AF_UNIX) as second:
        second.connect(str(tmp_path / SOCKET))
        second.sendall(struct.pack(">I", 2) + b"w1" + struct.pack(">I", 6) + b"second")
        await until(lambda: hub_end.heard[1:3] == [("w1", "lost"), ("w1", b"second")])
        await first.close()
    await hub.close()


@on_loop
async def test_spreading_reaches_those_who_are_named_and_cutting_the_one(tmp_path: Path) -> None:
    hub, hub_end = LocalHub(tmp_path), HubEnd()
    await hub.open(hub_end, 1)
    ends = {name: EdgeEnd() for name in ("w1", "w2", "w3")}
    edges = [LocalEdge(tmp_path, name) for name in ends]
    for edge, end in zip(edges, ends.values(), strict=True):
        await edge.open(end)
    await until(lambda: all(end.heard for end in ends.values()))
    for edge in edges:
        edge.send(b"here")
    await until(lambda: len(hub_end.heard) == 3)
    hub.spread(frozenset({"w1", "w3", "nobody"}), b"for two")
    await until(lambda: ends["w1"].heard[-1] == ends["w3"].heard[-1] == b"for two")
    assert ends["w2"].heard == ["connected"]
    hub.cut("w2")
    hub.cut("nobody")
    await until(lambda: ends["w2"].heard == ["connected", "lost", "connected"])
    assert hub_end.heard[3:] == [("w2", "lost")]
    for edge in edges:
        await edge.close()
    await hub.close()


@on_loop
async def test_an_edge_that_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_UNSENT", 1 << 20)
    hub, hub_end = LocalHub(tmp_path), HubEnd()
    await hub.open(hub_end, 1)
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.connect(str(tmp_path / SOCKET))
        frozen.sendall(struct.pack(">I", 2) + b"w1" + struct.pack(">I", 2) + b"hi")
        await until(lambda: hub_end.heard == [("w1", b"hi")])
        for _ in range(200):
            hub.send("w1", b"x" * 10_000)
            await asyncio.sleep(0)
        await until(lambda: hub_end.heard[-1] == ("w1", "lost"))
    await hub.close()


@on_loop
async def test_a_payload_that_is_too_long_ends_the_connection(tmp_path: Path) -> None:
    hub, hub_end = LocalHub(tmp_path), HubEnd()
    await hub.open(hub_end, 1)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(tmp_path / SOCKET))
        stranger.sendall(struct.pack(">I", 2) + b"w1" + struct.pack(">I", local.MAX_PAYLOAD + 1))
        await until(lambda: hub_end.heard == [("w1", "lost")])
    await hub.close()
