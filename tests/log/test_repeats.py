"""A fault that comes with every event does not fill the log: the same line is limited, and the rest of it counted."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator

import pytest

from penstock import log
from penstock.log.handler import Writer
from penstock.log.lines import TextFormatter
from penstock.log.repeats import Repeats
from penstock.testing.clock import Clock


class Limited:
    """A log with a clock that the test moves."""

    def __init__(self, limit: int) -> None:
        self.clock = Clock()
        self.stream = io.StringIO()
        self.handler = Writer(TextFormatter(), self.stream, None, Repeats(limit, 10.0, self.clock))
        self._logger = logging.getLogger("penstock.test.repeats")
        self._logger.addHandler(self.handler)
        self._logger.setLevel(logging.DEBUG)
        self._logger.propagate = False
        self.log = log.get("penstock.test.repeats")

    def lines(self) -> list[str]:
        """Those that were written, without their times."""
        return [line.split(" ", 1)[1] for line in self.stream.getvalue().splitlines()]

    def close(self) -> None:
        self.handler.close()
        self._logger.removeHandler(self.handler)
        self._logger.propagate = True


@pytest.fixture
def limited() -> Iterator[Limited]:
    made = Limited(3)
    yield made
    made.close()


def test_the_same_warning_is_written_so_many_times_and_then_counted(limited: Limited) -> None:
    for number in range(1_237):
        limited.log.warning("event dropped", adapter="FEED", item=f"item{number}")
    assert limited.lines() == [
        f"WARN  penstock.test.repeats event dropped adapter=FEED item=item{number}" for number in range(3)
    ]
    limited.clock.advance(10)
    limited.log.info("something else")
    assert limited.lines()[3:] == [
        "WARN  penstock.test.repeats event dropped … repeated 1,234 times in the last 10 s adapter=FEED item=item1236"
        " repeated=1234",
        "INFO  penstock.test.repeats something else",
    ]


def test_after_its_time_it_is_written_again_at_once(limited: Limited) -> None:
    for _ in range(5):
        limited.log.error("journal failed")
    limited.clock.advance(10)
    limited.log.error("journal failed")
    assert [line.partition("failed")[2] for line in limited.lines()] == [
        "",
        "",
        "",
        " … repeated 2 times in the last 10 s repeated=2",
        "",
    ]


def test_the_first_of_another_adapter_exception_or_level_is_written_at_once(limited: Limited) -> None:
    def fail(error: Exception, adapter: str) -> None:
        try:
            raise error
        except Exception:
            limited.log.exception("data adapter failed", adapter_set="SET", adapter=adapter)

    for _ in range(9):
        fail(ValueError("a"), "ONE")
    fail(ValueError("a"), "TWO")
    fail(KeyError("a"), "ONE")
    limited.log.warning("data adapter failed", adapter_set="SET", adapter="ONE")
    assert len(limited.lines()) == 3 + 3


def test_what_is_below_a_warning_is_never_held_back(limited: Limited) -> None:
    for number in range(50):
        limited.log.info("session opened", session=number)
        limited.log.debug("request", session=number)
    assert len(limited.lines()) == 100


def test_no_limit_is_no_limit() -> None:
    limited = Limited(0)
    for _ in range(500):
        limited.log.error("journal failed")
    assert len(limited.lines()) == 500
    limited.close()


def test_what_was_held_back_is_told_at_the_end(limited: Limited) -> None:
    for _ in range(5):
        limited.log.error("journal failed")
    limited.clock.advance(4)
    limited.handler.close()
    assert limited.lines()[-1].endswith("journal failed … repeated 2 times in the last 4 s repeated=2")


def test_what_was_held_back_is_told_in_time_though_nothing_more_is_logged() -> None:
    told = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if "repeated 7 times" in text:
                told.set()
            return super().write(text)

    # The thread goes by real time; the clock is moved only when all ten are there, however long that takes.
    clock = Clock()
    handler = Writer(TextFormatter(), Stream(), None, Repeats(3, 0.05, clock))
    for _ in range(10):
        handler.handle(logging.LogRecord("some.library", logging.ERROR, "", 0, "it failed", None, None))
    clock.advance(0.05)
    assert told.wait(20)
    handler.close()


def test_nothing_is_lost_or_counted_twice_when_many_threads_log(limited: Limited) -> None:
    def fail() -> None:
        for _ in range(500):
            limited.log.error("journal failed")

    threads = [threading.Thread(target=fail) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    limited.handler.close()
    assert len(limited.lines()) == 4
    assert limited.lines()[-1].endswith("repeated=3997")


def test_kinds_of_lines_are_bounded(limited: Limited) -> None:
    for number in range(3_000):
        logging.getLogger("penstock.test.repeats").warning(f"made up {number}")
    assert len(limited.lines()) == 3_000
    # Of one kind more nothing is kept, so that all of it is written, until the time of the others is over.
    for expected in (3_005, 3_008):
        for _ in range(5):
            limited.log.error("journal failed")
        assert len(limited.lines()) == expected
        limited.clock.advance(10)
