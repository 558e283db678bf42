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
from penstock.doors.stream.carrier import WAITS, SocketCarrier, write_frames
from penstock.kernel.recovery import Batch
from tests.build.test_native import native as native

Sender = Callable[[Sequence[bytes], Sequence[Sequence[Any]]], list[tuple[Any, int, int]]]

pytestmark = pytest.mark.timeout(300)

OPEN, FULL, GONE, SHUT = "open", "full", "gone", "shut"
MORE_THAN_A_BUFFER = 4_000_000


class Reader:
    """A channel with a socket of its own; its peer reads, reads nothing, has gone, or something is in the way."""

    def __init__(self, state: str) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.outlet = WAITS if state == SHUT else self.near.fileno()
        self.rest: list[bytes] = []
        self.batches: list[Batch] = []
        self._before = 0
        if state == FULL:
            self._before = self.near.send(b"x" * MORE_THAN_A_BUFFER)
        if state == GONE:
            self.far.close()

    def send(self, batch: Batch) -> None:
        self.batches.append(batch)

    def write_rest(self, frames: bytes) -> None:
        self.rest.append(frames)

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
        return [(made.index(one), place, sent) for one, place, sent in left], [one.arrived() for one in made]


PLANS = st.lists(
    st.tuples(st.sampled_from([b"a", b"a frame", b"y" * 70_000]), st.lists(st.integers(0, 9), max_size=9)), max_size=6
)


@given(st.lists(st.sampled_from([OPEN, OPEN, OPEN, FULL, GONE, SHUT]), min_size=1, max_size=10), PLANS)
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
        assert left == [(full, 0, 0), (full, 1, WAITS), (free, 1, WAITS)]
        assert free.arrived() == b"first"


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
        assert [*free.rest, *free.batches, *full.batches, *shut.rest] == []
