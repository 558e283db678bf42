"""What streams write in a turn goes to many sockets at once, in the native version and in its twin alike."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.stream import carrier
from penstock.doors.stream.carrier import SocketCarrier, write_frames
from penstock.kernel.recovery import Batch
from tests.build.test_native import native as native

Sender = Callable[[Sequence[bytes], Sequence[Sequence[Any]]], list[tuple[Any, int, bytes | None]]]

pytestmark = pytest.mark.timeout(300)

OPEN, FULL, GONE, SHUT = "open", "full", "gone", "shut"
# The same with TLS: what is written to the socket is different for each of them.
SEALED, SEALED_FULL, SEALED_SHUT = "sealed", "sealed and full", "sealed and shut"
# With TLS, and it has failed.
BROKEN = "broken"
STATES = [OPEN, OPEN, OPEN, FULL, GONE, SHUT, SEALED, SEALED, SEALED_FULL, SEALED_SHUT, BROKEN]
MORE_THAN_A_BUFFER = 4_000_000


class Reader:
    """A channel with a socket of its own; its peer reads, reads nothing, has gone, or something is in the way."""

    def __init__(self, state: str, websocket: bool = True) -> None:
        self.websocket = websocket
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.outlet = -1 if state in (SHUT, SEALED_SHUT) else self.near.fileno()
        self.seal = None if state in (OPEN, FULL, GONE, SHUT) else self._broken if state == BROKEN else self._sealed
        self._seals = 0
        self.rest: list[bytes] = []
        self.batches: list[Batch] = []
        self._before = 0
        if state in (FULL, SEALED_FULL):
            self._before = self.near.send(b"x" * MORE_THAN_A_BUFFER)
        if state == GONE:
            self.far.close()

    def _sealed(self, data: bytes) -> bytes:
        self._seals += 1
        return b"<%d %b>" % (self._seals, data)

    def _broken(self, data: bytes) -> bytes:
        return b""

    def send(self, batch: Batch) -> None:
        self.batches.append(batch)

    def write_rest(self, data: bytes) -> None:
        self.rest.append(data)

    def arrived(self) -> bytes:
        found = b""
        while True:
            try:
                data = self.far.recv(1 << 20)
            except OSError:
                return found[self._before :]
            if not data:
                return found[self._before :]
            found += data

    def close(self) -> None:
        self.near.close()
        self.far.close()


class Copy:
    """A channel with another descriptor of a socket."""

    seal: object = None

    def __init__(self, outlet: int) -> None:
        self.outlet = outlet


@contextmanager
def readers(states: Sequence[str]) -> Iterator[list[Reader]]:
    made = [Reader(state) for state in states]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def outcome(send: Sender, states: list[str], plan: list[tuple[bytes, list[int]]]) -> tuple[object, list[bytes]]:
    """What is left, by the numbers of the readers, and what has arrived at each."""
    with readers(states) as made:
        left = send([frame for frame, _ in plan], [[made[number % len(made)] for number in to] for _, to in plan])
        return [(made.index(one), place, rest) for one, place, rest in left], [one.arrived() for one in made]


PLANS = st.lists(
    st.tuples(st.sampled_from([b"a", b"a frame", b"y" * 70_000]), st.lists(st.integers(0, 9), max_size=9)), max_size=6
)


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=10), PLANS)
def test_the_native_version_sends_and_leaves_the_same(
    native: ModuleType, states: list[str], plan: list[tuple[bytes, list[int]]]
) -> None:
    assert outcome(native.send_frames, states, plan) == outcome(write_frames, states, plan)


@pytest.fixture(params=["native", "twin"])
def send(request: pytest.FixtureRequest) -> Sender:
    if request.param == "twin":
        return write_frames
    module: ModuleType = request.getfixturevalue("native")
    found: Sender = module.send_frames
    return found


def test_more_sockets_than_fit_into_one_call(send: Sender) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    copies: list[int] = []
    try:
        with readers([OPEN] * 10) as made:
            copies += [os.dup(one.near.fileno()) for one in made for _ in range(120)]
            channels = [Copy(descriptor) for descriptor in copies]
            assert send([b"."], [channels]) == []
            assert [one.arrived() for one in made] == [b"." * 120] * 10
    finally:
        for descriptor in copies:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_second_frame_for_a_socket_waits_until_the_first_is_known_to_be_whole(send: Sender) -> None:
    with readers([FULL, OPEN]) as (full, free):
        left = send([b"first", b"second"], [[full, free], [full, free]])
        assert left == [(full, 0, b"first"), (full, 1, None), (free, 1, None)]
        assert free.arrived() == b"first"


def test_what_is_sealed_is_written_in_the_order_in_which_it_was_sealed(send: Sender) -> None:
    with readers([SEALED_FULL, SEALED, SEALED_SHUT]) as (full, free, shut):
        everybody = [full, free, shut]
        assert send([b"first", b"second"], [everybody, everybody]) == [
            (full, 0, b"<1 first>"),
            (shut, 0, None),
            # Not sealed: what waits may have to be written after something else.
            (full, 1, None),
            (free, 1, None),
            (shut, 1, None),
        ]
        assert free.arrived() == b"<1 first>"
        assert send([b"third"], [[free]]) == []
        assert free.arrived() == b"<2 third>"


def test_nothing_is_left_of_what_could_not_be_sealed(send: Sender) -> None:
    with readers([BROKEN, OPEN]) as (broken, free):
        assert send([b"one"], [[broken, free]]) == []
        assert (broken.arrived(), free.arrived()) == (b"", b"one")


def test_more_is_sealed_than_is_kept_at_once(send: Sender) -> None:
    with readers([SEALED, OPEN] * 8) as made:
        for one in made:
            one.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
        frame = b"z" * 120_000
        assert send([frame], [made]) == []
        assert [one.arrived() for one in made] == [b"<1 " + frame + b">", frame] * 8


def test_what_the_socket_takes_in_part_is_not_sealed_again(send: Sender) -> None:
    with readers([SEALED]) as (one,):
        frame = b"z" * MORE_THAN_A_BUFFER
        ((channel, place, rest),) = send([frame], [[one]])
        assert (channel, place) == (one, 0)
        assert rest
        assert one.arrived() + rest == b"<1 " + frame + b">"


def test_a_process_that_is_forked_sends_by_itself(native: ModuleType) -> None:
    with readers([OPEN] * 8) as made:
        assert native.send_frames([b"one"], [made]) == []
        child = os.fork()
        if not child:
            os._exit(0 if native.send_frames([b"two"], [made]) == [] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert native.send_frames([b"three"], [made]) == []
        assert [one.arrived() for one in made] == [b"onetwothree"] * 8


def test_what_is_wrong_with_the_arguments_is_told(native: ModuleType) -> None:
    wrong_arguments: list[tuple[Any, ...]] = [
        ([b"a"],),
        ([b"a"], []),
        (["a"], [[]]),
        ([b"a"], [()]),
        (b"a", [[]]),
    ]
    for wrong in wrong_arguments:
        with pytest.raises(TypeError):
            native.send_frames(*wrong)
    with pytest.raises(AttributeError):
        native.send_frames([b"a"], [[object()]])
    with pytest.raises(TypeError):
        native.send_frames([b"a"], [[Copy("7")]])  # type: ignore[arg-type]
    with readers([OPEN]) as (one,):
        for wrong_seal in (7, lambda frame: "text"):
            copy = Copy(one.near.fileno())
            copy.seal = wrong_seal
            with pytest.raises(TypeError):
                native.send_frames([b"a"], [[copy]])
        assert one.arrived() == b""


def test_what_a_socket_does_not_take_goes_to_its_channel(monkeypatch: pytest.MonkeyPatch, send: Sender) -> None:
    monkeypatch.setattr(carrier, "send_frames", send)
    with readers([OPEN, FULL, SHUT]) as (free, full, shut):
        batch = Batch(0.0, [b"U,1,1,a\r\n"])
        channels: list[Any] = [free, full, shut]
        SocketCarrier(1_000).carry([batch], [channels])
        assert free.arrived() == b"\x81\x09U,1,1,a\r\n"
        assert full.rest == [b"\x81\x09U,1,1,a\r\n"]
        assert shut.batches == [batch]
        assert batch.framed == b"\x81\x09U,1,1,a\r\n"
        assert batch.chunked is None
        assert [*free.rest, *free.batches, *full.batches, *shut.rest] == []


def test_a_batch_goes_to_websockets_as_a_frame_and_to_answers_as_a_chunk(
    monkeypatch: pytest.MonkeyPatch, send: Sender
) -> None:
    monkeypatch.setattr(carrier, "send_frames", send)
    with readers([OPEN, SEALED, SHUT]) as sockets, readers([OPEN, SEALED, SHUT]) as answers:
        for one in answers:
            one.websocket = False
        batch = Batch(0.0, [b"U,1,1,a\r\n"])
        first: list[Any] = [*sockets]
        second: list[Any] = [*answers]
        SocketCarrier(1_000).carry([batch, batch], [first, second])
        assert [one.arrived() for one in sockets] == [b"\x81\x09U,1,1,a\r\n", b"<1 \x81\x09U,1,1,a\r\n>", b""]
        assert [one.arrived() for one in answers] == [b"9\r\nU,1,1,a\r\n\r\n", b"<1 9\r\nU,1,1,a\r\n\r\n>", b""]
        assert [one.batches for one in (*sockets, *answers)] == [[], [], [batch]] * 2
