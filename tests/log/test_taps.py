"""Whoever wants to show the log gets its lines as data, and can neither slow nor stop those who log."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock import log
from penstock.log import LogLine, Tap
from penstock.log.repeats import Repeats

PATIENCE = 20


class Heard:
    """A tap whose lines a test waits for."""

    def __init__(self) -> None:
        self._lines: queue.Queue[LogLine] = queue.Queue()
        self.tap = log.tap(self._lines.put)

    def next(self) -> LogLine:
        return self._lines.get(timeout=PATIENCE)


@pytest.fixture
def heard(root_logger: logging.Logger) -> Iterator[Heard]:
    log.set_level("penstock", "info")
    made = Heard()
    yield made
    made.tap.close()


def test_a_line_comes_as_data_with_its_secrets_masked(heard: Heard) -> None:
    log.get("penstock.doors.test").info("session opened", session="S 1", address="192.0.2.1", password="hunter2")
    line = heard.next()
    assert (line.level, line.category, line.lost) == ("info", "penstock.doors.test", 0)
    assert line.message == 'session opened session="S 1" address=192.0.2.1 password=***'
    assert line.fields == {"session": "S 1", "address": "192.0.2.1", "password": "***"}
    assert line.thread == threading.current_thread().name
    assert line.time > 1_700_000_000


def test_lines_below_the_level_do_not_come_and_those_of_libraries_do(heard: Heard) -> None:
    log.get("penstock.doors.test").debug("quiet")
    logging.getLogger("quotes").warning("lost %s", "it\nall")
    line = heard.next()
    assert (line.category, line.message) == ("penstock.library.quotes", r"lost it\nall")


def test_what_the_callback_logs_does_not_come_back_to_it(root_logger: logging.Logger) -> None:
    log.set_level("penstock", "info")
    lines: list[str] = []
    done = threading.Event()

    def show(line: LogLine) -> None:
        lines.append(line.message)
        log.get("penstock.monitor.test").warning("shown once more")
        if line.message == "last":
            done.set()

    tap = log.tap(show)
    log.get("penstock.doors.test").info("first")
    log.get("penstock.doors.test").info("last")
    assert done.wait(PATIENCE)
    tap.close()
    assert lines == ["first", "last"]


def test_a_callback_that_fails_is_called_again(root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "text")
    lines: queue.Queue[str] = queue.Queue()

    def show(line: LogLine) -> None:
        lines.put(line.message)
        raise RuntimeError("no room on the page")

    tap = log.tap(show)
    for event in ("first", "second"):
        log.get("penstock.doors.test").info(event)
    assert [lines.get(timeout=PATIENCE) for _ in range(2)] == ["first", "second"]
    tap.close()
    assert capsys.readouterr().err.count("the callback of a tap failed") == 2


def test_lines_that_find_no_room_are_counted_and_nobody_waits(root_logger: logging.Logger) -> None:
    log.set_level("penstock", "info")
    entered, released = threading.Event(), threading.Event()
    lines: queue.Queue[LogLine] = queue.Queue()

    def show(line: LogLine) -> None:
        entered.set()
        released.wait(PATIENCE)
        lines.put(line)

    tap = Tap(show, Repeats(0), max_waiting=3)
    logging.getLogger().addHandler(tap)
    log.get("penstock.doors.test").info("0")
    assert entered.wait(PATIENCE)
    for number in range(1, 11):
        log.get("penstock.doors.test").info(str(number))
    released.set()
    assert [lines.get(timeout=PATIENCE).message for _ in range(4)] == ["0", "1", "2", "3"]
    log.get("penstock.doors.test").info("11")
    line = lines.get(timeout=PATIENCE)
    assert (line.message, line.lost) == ("11", 7)
    tap.close()


def test_the_same_warning_is_limited_for_a_tap_as_well(heard: Heard) -> None:
    for number in range(100):
        log.get("penstock.doors.test").warning("event dropped", item=number)
    log.get("penstock.doors.test").info("last")
    got = [heard.next() for _ in range(21)]
    assert [line.fields.get("item") for line in got] == [*range(20), None]


def test_after_its_end_a_tap_hears_nothing_and_a_second_end_is_none(root_logger: logging.Logger) -> None:
    log.set_level("penstock", "info")
    lines: list[str] = []
    handlers = list(root_logger.handlers)
    tap = log.tap(lambda line: lines.append(line.message))
    tap.close()
    tap.close()
    log.get("penstock.doors.test").info("too late")
    assert lines == []
    assert root_logger.handlers == handlers


def test_a_tap_may_be_ended_by_its_own_callback(root_logger: logging.Logger) -> None:
    log.set_level("penstock", "info")
    ended = threading.Event()
    ends: list[Callable[[], None]] = []

    def show(line: LogLine) -> None:
        ends[0]()
        ended.set()

    ends.append(log.tap(show).close)
    log.get("penstock.doors.test").info("only")
    assert ended.wait(PATIENCE)


def test_many_threads_may_log_at_once(heard: Heard) -> None:
    def write(number: int) -> None:
        for _ in range(50):
            log.get("penstock.doors.test").info("event", writer=number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = [heard.next().fields["writer"] for _ in range(400)]
    assert sorted(str(number) for number in got) == sorted(str(number) for number in range(8) for _ in range(50))
