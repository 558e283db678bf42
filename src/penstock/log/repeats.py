"""The same warning or error is not written for ever: a limit for each kind, and one line for those above it.

Not here: how lines look (lines), where they go (handler, taps).
Read next: `[log]` in docs/configuration.md.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from penstock.log.request import mark

# The same warning or error is written this often within so many seconds; further ones are counted, and told in one line
# at the end of that time. Without it a fault that comes with every event would fill the disk and slow everybody down.
MAX_REPEATS = 20
REPEAT_SECONDS = 10.0

# Warnings and errors that are told apart for that; while there are more, new ones are written without being counted.
MAX_KINDS = 1_000


class Repeats:
    """How often each warning and error has come of late. Its owner sees to it that one thread at a time asks."""

    def __init__(
        self, limit: int, seconds: float = REPEAT_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self.seconds = seconds
        self._clock = clock
        # Since when, how often since then, and the latest that was not written.
        self._kinds: dict[object, tuple[float, int, logging.LogRecord | None]] = {}

    def admit(self, record: logging.LogRecord) -> bool:
        """Whether to write it; `ended` comes first. Those below a warning always are: they say what happens, once."""
        if record.levelno < logging.WARNING or not self._limit:
            return True
        now = self._clock()
        kind = _kind(record)
        since, count, _ = self._kinds.get(kind, (now, 0, None))
        if not count and len(self._kinds) >= MAX_KINDS:
            return True
        is_written = count < self._limit
        self._kinds[kind] = since, count + 1, None if is_written else record
        return is_written

    def ended(self, at_once: bool = False) -> list[logging.LogRecord]:
        """What to write in place of those that were not, now that their time is over; `at_once` even if it is not."""
        now = self._clock()
        told = []
        # The first are those that began first.
        while self._kinds:
            kind, (since, count, latest) = next(iter(self._kinds.items()))
            if now < since + self.seconds and not at_once:
                break
            del self._kinds[kind]
            if latest is not None:
                told.append(self._told(latest, count - self._limit, min(now - since, self.seconds)))
        return told

    def next_end(self) -> float | None:
        """Seconds until there is something to tell; None when nothing was held back."""
        ends = [since + self.seconds for since, _, latest in self._kinds.values() if latest is not None]
        return max(0.0, min(ends) - self._clock()) if ends else None

    @staticmethod
    def _told(latest: logging.LogRecord, count: int, seconds: float) -> logging.LogRecord:
        record = logging.makeLogRecord(latest.__dict__)
        record.msg = f"{latest.getMessage()} … repeated {count:,} times in the last {seconds:.0f} s"
        record.args = None
        # Of the latest of them, but for the traceback: those that were written have had theirs.
        record.exc_info = None
        given = getattr(latest, "fields", None)
        record.fields = {**(given if isinstance(given, Mapping) else {}), "repeated": count}
        record.created = time.time()
        return record


def _kind(record: logging.LogRecord) -> object:
    """What makes two lines the same: where they come from, their event, the adapter and the exception; not the rest."""
    fields = getattr(record, "fields", None)
    adapter = (str(fields.get("adapter_set")), str(fields.get("adapter"))) if isinstance(fields, Mapping) else ()
    error = type(record.exc_info[1]) if record.exc_info else None
    return record.name, record.levelno, str(record.msg), adapter, error


class LimitedHandler(logging.Handler):
    """Hands lines on, but not the same one for ever. What it holds back is told in time, if need be by a thread."""

    def __init__(self, repeats: Repeats) -> None:
        super().__init__()
        self._repeats = repeats
        self._timer: threading.Timer | None = None

    def hand_on(self, record: logging.LogRecord) -> None:
        """What becomes of a line; called with the handler's lock held."""
        raise NotImplementedError

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held."""
        mark(record)
        self._tell()
        if self._repeats.admit(record):
            self._hand_on(record)
        elif self._timer is None:
            self._start_timer()

    def close(self) -> None:
        """What is held back is told now."""
        with self.locked():
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._tell(at_once=True)
        super().close()

    def _tell(self, at_once: bool = False) -> None:
        for record in self._repeats.ended(at_once):
            self._hand_on(record)

    def _hand_on(self, record: logging.LogRecord) -> None:
        try:
            self.hand_on(record)
        except Exception:
            self.handleError(record)

    def _start_timer(self) -> None:
        seconds = self._repeats.next_end()
        if seconds is not None:
            self._timer = threading.Timer(seconds, self._time_is_over)
            self._timer.daemon = True
            self._timer.start()

    def _time_is_over(self) -> None:
        with self.locked():
            self._timer = None
            self._tell()
            self._start_timer()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()
