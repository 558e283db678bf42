"""Turns: what is written when, who suffers from whom, and what happens when the machine cannot keep up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from penstock.doors.stream.turns import LONGEST_REST, Turns
from penstock.kernel.identity import SessionIds
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding
from penstock.kernel.timers import Timed
from penstock.testing import Harness, MemoryChannel
from penstock.testing.clock import Clock


class Connection:
    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.flushed = 0
        self.cuts = 0

    def flush(self) -> None:
        if self.broken:
            raise RuntimeError("broken on purpose")
        self.flushed += 1

    def cut(self) -> None:
        self.cuts += 1


def test_a_connection_that_fails_is_cut_and_the_others_still_write(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> list[Connection]:
        turns = Turns(asyncio.get_running_loop())
        turns.run_kernel(Harness().kernel)
        connections = [Connection(), Connection(broken=True), Connection()]
        for connection in connections:
            turns.flush_later(connection)
        turns.run()
        turns.stop()
        return connections

    connections = asyncio.run(scenario())
    assert [(one.flushed, one.cuts) for one in connections] == [(1, 0), (0, 1), (1, 0)]
    assert "connection failed while writing" in caplog.text


class Asking:
    """Asks for another write while it is written, as often as it is told."""

    def __init__(self, turns: Turns, more: int = 0) -> None:
        self.flushed = 0
        self._turns = turns
        self._more = more

    def flush(self) -> None:
        self.flushed += 1
        if self.flushed <= self._more:
            self._turns.flush_later(self)

    def cut(self) -> None:
        raise AssertionError("nothing fails here")


class Speaking(Timed):
    def __init__(self, turns: Turns, connection: Asking) -> None:
        super().__init__()
        self._turns = turns
        self._connection = connection

    def expire(self, now: float) -> None:
        self._turns.flush_later(self._connection)


class CountingKernel(Kernel):
    turns = 0

    def turn(self) -> None:
        self.turns += 1
        super().turn()


def counting_kernel() -> tuple[Turns, CountingKernel]:
    loop = asyncio.get_running_loop()
    turns = Turns(loop)
    kernel = CountingKernel(loop.time, turns, SessionIds("test", bytes), SessionLimits())
    turns.run_kernel(kernel)
    return turns, kernel


async def let_the_loop_go_round() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_comes_up_during_a_turn_is_written_in_it_and_leads_to_no_second_one() -> None:
    async def run() -> None:
        turns, kernel = counting_kernel()
        connection = Asking(turns)
        kernel.set_timer(Speaking(turns, connection), kernel.clock() - 1)
        await let_the_loop_go_round()
        assert (kernel.turns, connection.flushed) == (1, 1)

    asyncio.run(run())


def test_what_a_connection_asks_for_while_it_is_written_gets_a_turn_of_its_own() -> None:
    async def run() -> None:
        turns, kernel = counting_kernel()
        connection = Asking(turns, more=1)
        turns.flush_later(connection)
        await let_the_loop_go_round()
        assert (kernel.turns, connection.flushed) == (2, 2)

    asyncio.run(run())


class SlowChannel(MemoryChannel):
    """Each write takes its time, as if a machine had far too many of them to do."""

    def __init__(self, clock: Clock, cost: float) -> None:
        super().__init__()
        self._machine = clock
        self._cost = cost
        self.ages: list[float] = []

    def write(self, lines: Sequence[bytes]) -> int:
        self._machine.move_to(self._machine.now + self._cost)
        self.ages += [
            self._machine.now - float(line.removeprefix(b"U,1,1,")) for line in lines if line.startswith(b"U,1,1,")
        ]
        return super().write(lines)


class BusyServer:
    """Real turns over a kernel whose clock is moved by what the machine has to do: an event a millisecond for all."""

    def __init__(self, sessions: int, cost: float) -> None:
        self.harness = Harness()
        self.turns = Turns(asyncio.get_running_loop())
        self.turns.run_kernel(self.harness.kernel)
        self.channels = [SlowChannel(self.harness.clock, cost) for _ in range(sessions)]
        for channel in self.channels:
            session = self.harness.kernel.open_session(self.harness.codec, self.harness.handler)
            session.bind(channel, Binding(send_sync=False), [])
            self.harness.subscribe(session, 1, "clock", "x")
            channel.ages.clear()

    def run(self, seconds: float) -> None:
        """The feed goes on while the machine is busy: events that came meanwhile are published before the next turn."""
        clock = self.harness.clock
        until = clock.now + seconds
        published = clock.now
        while clock.now < until:
            while published <= clock.now:
                self.turns.wake()
                self.harness.source.publish("clock", {"x": f"{published:.3f}"})
                published += 0.001
            self.turns.run()
            clock.move_to(clock.now + 0.001)

    def stop(self) -> None:
        self.turns.stop()


def test_a_machine_that_keeps_up_sends_every_update() -> None:
    async def scenario() -> None:
        server = BusyServer(sessions=5, cost=0.00001)
        server.run(1.0)
        assert server.harness.kernel.rest == 0
        assert min(len(channel.ages) for channel in server.channels) >= 990
        server.stop()

    asyncio.run(scenario())


def test_thousands_of_sessions_do_not_rest_only_because_writing_to_all_of_them_takes_long() -> None:
    async def scenario() -> None:
        # 80 ms for all of them: what is sent is 40 ms old on average.
        server = BusyServer(sessions=80, cost=0.001)
        server.run(10.0)
        assert server.harness.kernel.rest == 0
        server.stop()

    asyncio.run(scenario())


def test_on_a_saturated_machine_updates_are_thinned_evenly_and_do_not_age() -> None:
    async def scenario() -> None:
        server = BusyServer(sessions=120, cost=0.001)
        server.run(20.0)
        assert server.harness.kernel.rest > 0
        counts = [len(channel.ages) for channel in server.channels]
        assert min(counts) >= 20
        assert max(counts) <= min(counts) * 1.1 + 1, "everybody is thinned alike"
        later = [age for channel in server.channels for age in channel.ages[len(channel.ages) // 2 :]]
        assert max(later) <= 0.25, "what is sent is fresh, however long the machine has been busy"
        server.stop()

    asyncio.run(scenario())


def test_strain_has_a_limit_and_eases_when_the_machine_keeps_up_again() -> None:
    async def scenario() -> None:
        server = BusyServer(sessions=10, cost=0.5)
        server.run(30.0)
        assert server.harness.kernel.rest == LONGEST_REST
        for channel in server.channels:
            channel._cost = 0.0
        server.run(10.0)
        assert server.harness.kernel.rest == 0
        server.stop()

    asyncio.run(scenario())
