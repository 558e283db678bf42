"""Workers that hand connections over: what is refused of others, and neighbours that are not as they should be."""

from __future__ import annotations

import array
import asyncio
import contextlib
import gc
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.transport.listener import ListenError
from penstock.transport.neighbours import Neighbours
from penstock.transport.parcel import HEADER, BadParcel, Parcel, packed
from tests.transport.loops import Run

PARCEL = Parcel("stream", "192.0.2.1", 4711, None)


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hand-") as found:
        yield Path(found)


@pytest.fixture(scope="module", autouse=True)
def settled() -> None:
    """`descriptors` need not look for garbage among what all other tests have left."""
    gc.collect()
    gc.freeze()


class Taker:
    """Takes what comes, and keeps it."""

    def __init__(self) -> None:
        self.found: list[tuple[socket.socket, Parcel, bytes]] = []

    async def take(
        self, connection: socket.socket, parcel: Parcel, data: bytes, acknowledge: Callable[[], None]
    ) -> None:
        if parcel.listener != "stream":
            raise BadParcel("there is no such listener")
        acknowledge()
        self.found.append((connection, parcel, data))


def descriptors() -> int:
    """Unix sockets that are open. Others come and go by themselves where tests with Spark have run before."""
    gc.collect()
    _, *lines = Path("/proc/net/unix").read_text().splitlines()
    sockets = {f"socket:[{line.split()[6]}]" for line in lines}
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{number}") in sockets
    return count


def test_a_connection_arrives_with_all_that_was_read(run: Run, directory: Path) -> None:
    async def try_it() -> None:
        one, two, taker = Neighbours(directory, "one"), Neighbours(directory, "two"), Taker()
        two.open(taker.take)
        assert one.has("two")
        assert not two.has("two")
        assert not one.has("three")
        ours, theirs = socket.socketpair()
        # More than the buffers of a Unix socket hold.
        data = os.urandom(3_000_000)
        with ours:
            with theirs:
                assert await one.give("two", theirs.fileno(), PARCEL, data)
            ((connection, parcel, found),) = taker.found
            assert (parcel, found) == (PARCEL, data)
            with connection:
                ours.send(b"hello")
                assert connection.recv(10) == b"hello"
        two.close()
        assert not one.has("two")

    before = descriptors()
    run(try_it())
    assert descriptors() == before


def test_what_the_port_does_not_take_is_given_back(run: Run, directory: Path) -> None:
    async def try_it() -> None:
        one, two = Neighbours(directory, "one"), Neighbours(directory, "two")
        two.open(Taker().take)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            wrong = Parcel("elsewhere", "192.0.2.1", 4711, None)
            assert not await one.give("two", theirs.fileno(), wrong, b"")
        two.close()

    before = descriptors()
    run(try_it())
    assert descriptors() == before


def junk() -> list[tuple[bytes, int]]:
    """Bytes, and how many descriptors go with them."""
    good = packed(PARCEL, b"GET")
    return [
        (b"", 0),
        (b"\0", 1),
        (good, 0),
        (good, 2),
        (good, 16),
        (good, 40),
        (good[:-1], 1),
        (good + b"x", 1),
        (HEADER.pack(5, 0) + b"{}{}{", 1),
        (HEADER.pack(2, 0) + b"[]", 1),
        (HEADER.pack(2**32 - 1, 2**32 - 1), 1),
        (good.replace(b"4711", b'"47"'), 1),
        (good.replace(b"listener", b"unlisten"), 1),
        (os.urandom(5000), 3),
    ]


@pytest.mark.parametrize("number", range(len(junk())))
def test_nonsense_closes_its_connection_and_nothing_else(run: Run, directory: Path, number: int) -> None:
    data, count = junk()[number]

    async def try_it() -> None:
        loop = asyncio.get_running_loop()
        one, two, taker = Neighbours(directory, "one"), Neighbours(directory, "two"), Taker()
        two.open(taker.take)
        given = [os.open("/dev/null", os.O_RDONLY) for _ in range(count)]
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.setblocking(False)
            stranger.connect(str(directory / "two.hand"))
            if data:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))] if given else []
                stranger.sendmsg([data], rights)
            stranger.shutdown(socket.SHUT_WR)
            # Reset if it was closed before all of it was read.
            with contextlib.suppress(ConnectionResetError):
                assert await loop.sock_recv(stranger, 10) == b""
        for each in given:
            os.close(each)
        assert taker.found == []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert await one.give("two", theirs.fileno(), PARCEL, b"")
        taker.found[0][0].close()
        two.close()

    before = descriptors()
    run(try_it())
    assert descriptors() == before


def test_a_neighbour_that_does_not_react_counts_as_gone_for_a_while(run: Run, directory: Path) -> None:
    async def try_it() -> None:
        one = Neighbours(directory, "one", seconds=0.05)
        with socket.socket(socket.AF_UNIX) as frozen:
            frozen.bind(str(directory / "two.hand"))
            frozen.listen()
            ours, theirs = socket.socketpair()
            with ours, theirs:
                with pytest.raises(TimeoutError):
                    await one.give("two", theirs.fileno(), PARCEL, b"")
                assert not one.has("two")
                assert await one.ask("two", PARCEL, b"") is None
            await asyncio.sleep(0.06)
            assert one.has("two")
            # Those that have to wait for one another wait no longer than each alone.
            began = asyncio.get_running_loop().time()
            assert set(await asyncio.gather(*[one.ask("two", PARCEL, b"") for _ in range(50)])) == {None}
            assert asyncio.get_running_loop().time() - began < 50 * 0.05

    before = descriptors()
    run(try_it())
    assert descriptors() == before


def test_a_neighbour_that_comes_to_too_late_does_not_take_the_connection(run: Run, directory: Path) -> None:
    """It was frozen, and its neighbour has answered the client."""

    async def try_it() -> None:
        two, taker = Neighbours(directory, "two"), Taker()
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, socket.socket(socket.AF_UNIX) as early, socket.socket(socket.AF_UNIX) as stranger:
                early.bind(str(directory / "two.hand"))
                early.listen()
                stranger.connect(str(directory / "two.hand"))
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
                stranger.sendmsg([packed(PARCEL, b"GET")], rights)
                accepted, _ = early.accept()
            accepted.setblocking(False)
            two._take = taker.take
            await two._receive(accepted)
            assert taker.found == []
            assert ours.recv(1) == b""

    before = descriptors()
    run(try_it())
    assert descriptors() == before


def test_requests_are_passed_on_in_their_order(run: Run, directory: Path) -> None:
    async def try_it() -> None:
        one, two, order = Neighbours(directory, "one"), Neighbours(directory, "two"), list[bytes]()

        async def take(connection: socket.socket, parcel: Parcel, data: bytes, acknowledge: Callable[[], None]) -> None:
            order.append(data)
            acknowledge()
            with connection:
                connection.send(data.upper())

        two.open(take)
        asked = [f"request {number}".encode() for number in range(200)]
        assert await asyncio.gather(*[one.ask("two", PARCEL, each) for each in asked]) == [
            each.upper() for each in asked
        ]
        assert order == asked
        two.close()

    run(try_it())


@pytest.mark.parametrize("mode", [0o750, 0o707, 0o777])
def test_a_directory_that_others_may_enter_is_refused(run: Run, directory: Path, mode: int) -> None:
    async def try_it() -> None:
        with pytest.raises(ListenError, match="nobody else"):
            Neighbours(directory, "one").open(Taker().take)

    directory.chmod(mode)
    run(try_it())
    directory.chmod(0o700)


def test_a_directory_that_is_not_there_and_a_path_that_is_too_long_are_named(run: Run, directory: Path) -> None:
    async def try_it() -> None:
        with pytest.raises(ListenError, match="No such file"):
            Neighbours(directory / "missing", "one").open(Taker().take)
        with pytest.raises(ListenError, match="too long"):
            Neighbours(directory, "n" * 120).open(Taker().take)

    run(try_it())


def test_a_successor_takes_the_place_of_one_that_was_killed_and_keeps_it(run: Run, directory: Path) -> None:
    async def try_it() -> None:
        old, new, one = Neighbours(directory, "two"), Neighbours(directory, "two"), Neighbours(directory, "one")
        old.open(Taker().take)
        new.open(Taker().take)
        old.close()
        assert one.has("two")
        new.close()

    run(try_it())
    assert not list(directory.iterdir())


def test_another_user_is_refused(run: Run, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def try_it() -> None:
        one, two, taker = Neighbours(directory, "one"), Neighbours(directory, "two"), Taker()
        two.open(taker.take)
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert not await one.give("two", theirs.fileno(), PARCEL, b"")
        monkeypatch.undo()
        two.close()
        assert taker.found == []

    run(try_it())
