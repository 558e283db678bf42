"""The stack against a naive model: every arrangement of up to three services, with every combination of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from itertools import chain, combinations

import pytest

from penstock.adapters.running import StartFailure
from penstock.doors.errors import DoorError
from penstock.services.errors import StartError
from penstock.services.service import Service
from penstock.services.stack import Stack
from penstock.transport.listener import ListenError

# A phase and the number of the service that fails in it.
Fault = tuple[str, int]
Layers = list[list[int]]

PHASES = ("open", "drain", "close")


class PlannedError(Exception):
    """Raised on purpose; its argument is the fault."""


class Noted(Service):
    """Notes when each phase begins and ends; fails where it is told to, after others have had a turn."""

    def __init__(self, number: int, events: list[str], faults: Collection[Fault]) -> None:
        self.name = f"service {number}"
        self._number = number
        self._events = events
        self._faults = faults

    async def open(self) -> None:
        await self._pass("open")

    async def drain(self) -> None:
        await self._pass("drain")

    async def close(self) -> None:
        await self._pass("close")

    async def _pass(self, phase: str) -> None:
        self._events.append(f"{phase} {self._number}")
        await asyncio.sleep(0)
        if (phase, self._number) in self._faults:
            raise PlannedError(phase, self._number)
        self._events.append(f"{phase} {self._number} done")


def arrangements(count: int) -> Iterator[Layers]:
    """All ways to put services 0, 1, … into layers, in this order."""
    if count == 0:
        yield []
        return
    for size in range(1, count + 1):
        for below in arrangements(count - size):
            yield [*below, list(range(count - size, count))]


def combinations_of_faults(count: int) -> Iterator[frozenset[Fault]]:
    """At most one service fails to open, because the start ends there; any may fail to drain or to close."""
    ends = [(phase, number) for phase in ("drain", "close") for number in range(count)]
    for failing in chain.from_iterable(combinations(ends, size) for size in range(len(ends) + 1)):
        yield frozenset(failing)
        for number in range(count):
            yield frozenset({*failing, ("open", number)})


def naive(layers: Layers, faults: Collection[Fault]) -> tuple[list[str], Fault | None]:
    """What is to happen, in which order, and which failure is to be raised."""
    events: list[str] = []
    failures: list[Fault] = []

    def begin(phase: str, number: int) -> None:
        events.append(f"{phase} {number}")

    def end(phase: str, number: int) -> None:
        if (phase, number) in faults:
            failures.append((phase, number))
        else:
            events.append(f"{phase} {number} done")

    opened: Layers = []
    for layer in layers:
        opened.append([])
        for number in layer:
            if not failures:
                begin("open", number)
                end("open", number)
                if not failures:
                    opened[-1].append(number)
    for layer in reversed(opened):
        for number in layer:
            begin("drain", number)
        for number in layer:
            end("drain", number)
    for number in reversed([number for layer in opened for number in layer]):
        begin("close", number)
        end("close", number)
    return events, failures[0] if failures else None


async def real(layers: Layers, faults: Collection[Fault]) -> tuple[list[str], BaseException | None]:
    events: list[str] = []
    stack = Stack([[Noted(number, events, faults) for number in layer] for layer in layers])
    try:
        await stack.open()
        await stack.close()
    except PlannedError as error:
        return events, error
    return events, None


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_whatever_fails_everything_that_was_opened_is_drained_and_closed_in_reverse_order(count: int) -> None:
    async def main() -> int:
        cases = 0
        for layers in arrangements(count):
            for faults in combinations_of_faults(count):
                expected, reason = naive(layers, faults)
                events, error = await real(layers, faults)
                assert events == expected, (layers, faults)
                assert (None if error is None else error.args) == reason, (layers, faults)
                if reason is not None:
                    phase, number = reason
                    note = f"raised by the service service {number} in its phase {phase}"
                    assert error is not None
                    assert error.__notes__ == [note], (layers, faults)
                cases += 1
        return cases

    assert asyncio.run(main()) == [1, 8, 96, 1024][count]


def test_when_the_third_of_five_does_not_open_the_two_before_it_end_in_reverse_order_and_the_error_names_it() -> None:
    events, error = asyncio.run(real([[0], [1], [2], [3], [4]], {("open", 2)}))
    assert [event for event in events if event.endswith("done")] == [
        "open 0 done",
        "open 1 done",
        "drain 1 done",
        "drain 0 done",
        "close 1 done",
        "close 0 done",
    ]
    assert error is not None
    assert error.__notes__ == ["raised by the service service 2 in its phase open"]


def test_services_of_one_layer_drain_at_the_same_time() -> None:
    class Waiting(Service):
        """Drains when the other does."""

        def __init__(self, name: str) -> None:
            self.name = name
            self.draining = asyncio.Event()
            self.other = self

        async def drain(self) -> None:
            self.draining.set()
            await self.other.draining.wait()

    async def main() -> None:
        one, other = Waiting("one"), Waiting("other")
        one.other, other.other = other, one
        stack = Stack([[one, other]])
        await stack.open()
        async with asyncio.timeout(10):
            await stack.close()

    asyncio.run(main())


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_stack_that_is_cancelled_still_ends_everything_that_is_open(phase: str, number: int) -> None:
    """One service waits for ever in one phase; whoever runs the stack is cancelled."""
    events: list[str] = []
    stuck = asyncio.Event()

    class Stuck(Noted):
        async def _pass(self, at: str) -> None:
            if at == phase and self._number == number:
                stuck.set()
                await asyncio.Event().wait()
            await super()._pass(at)

    async def run(stack: Stack) -> None:
        await stack.open()
        await stack.close()

    async def main() -> None:
        task = asyncio.create_task(run(Stack([[Stuck(each, events, ())] for each in range(3)])))
        await stuck.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    opened = [0, 1, 2] if phase != "open" else list(range(number))
    for end in ("drain", "close"):
        expected = [each for each in reversed(opened) if (end, each) != (phase, number)]
        assert [event for event in events if event.startswith(end) and "done" in event] == [
            f"{end} {each} done" for each in expected
        ]


def test_a_failure_on_the_way_down_is_in_the_log_by_name_even_when_another_one_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(real([[0], [1], [2]], {("open", 2), ("drain", 1), ("close", 0)}))
    assert [(record.fields["service"], record.fields["phase"]) for record in caplog.records] == [  # type: ignore[attr-defined]
        ("service 1", "drain"),
        ("service 0", "close"),
    ]


@pytest.mark.parametrize("reason", [DoorError, ListenError, StartFailure])
def test_what_keeps_a_part_from_opening_keeps_the_server_from_starting_in_the_same_words(
    reason: type[Exception],
) -> None:
    class Unable(Service):
        name = "unable"

        async def check(self) -> list[str]:
            raise reason("there is no water")

        async def open(self) -> None:
            await self.check()

    stack = Stack([[Unable()]])
    with pytest.raises(StartError) as checked:
        asyncio.run(stack.check())
    with pytest.raises(StartError) as failure:
        asyncio.run(stack.open())
    assert str(checked.value) == str(failure.value) == "there is no water"
    assert failure.value.__notes__ == ["raised by the service unable in its phase open"]
