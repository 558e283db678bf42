"""A tap: every line that the process logs is handed to somebody who wants to show it, on a thread of the tap's own.

Whoever logs never waits for that. Not here: who shows lines, and to whom.
Read next: `penstock.log.tap`.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.log.lines import category_of, fields_of, message
from penstock.log.repeats import LimitedHandler, Repeats

# Lines that may wait for the callback of a tap; of more, the number is told with the next that finds room.
MAX_WAITING = 1_000

# Seconds that the end of a tap waits for a callback under way.
LAST_CALL = 1.0


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log as data; secrets are masked, and no text in it is longer than a line may hold."""

    # Seconds since 1970.
    time: float
    # debug, info, warning, error or critical.
    level: str
    category: str
    # The event and its fields, printable, as in a text log after the category.
    message: str
    thread: str
    fields: Mapping[str, object]
    # Lines before this one that found no room.
    lost: int


class Tap(LimitedHandler):
    """`close` ends it: no call begins after that."""

    def __init__(self, callback: Callable[[LogLine], None], repeats: Repeats, max_waiting: int = MAX_WAITING) -> None:
        super().__init__(repeats)
        self._callback = callback
        self._waiting: queue.Queue[LogLine | None] = queue.Queue(max_waiting)
        self._lost = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="penstock-log-tap", daemon=True)
        self._thread.start()

    def hand_on(self, record: logging.LogRecord) -> None:
        if self._ended or record.thread == self._thread.ident:
            # What the callback itself logs would come back to it for ever.
            return
        fields = fields_of(record)
        line = LogLine(
            record.created,
            record.levelname.lower(),
            category_of(record.name),
            message(record, fields),
            record.threadName or "",
            fields,
            self._lost,
        )
        try:
            self._waiting.put_nowait(line)
            self._lost = 0
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        with self.locked():
            if self._ended:
                return
            self._ended = True
        logging.getLogger().removeHandler(self)
        super().close()
        # Room for the one that ends the thread: those that wait are not handed on any more.
        while not self._waiting.empty():
            try:
                self._waiting.get_nowait()
            except queue.Empty:
                break
        self._waiting.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(LAST_CALL)

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            if self._ended:
                continue
            try:
                self._callback(line)
            except Exception:
                logging.getLogger(__name__).exception("the callback of a tap failed")
