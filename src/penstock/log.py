"""Structured logs on standard error: an event and its fields, always on one line, through standard logging.

Not here: what is worth logging, which each room decides. The hot path of an update logs nothing.
Read next: `[log]` in docs/configuration.md.
"""

import contextlib
import json
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TextIO

# A field with such a name carries a secret whatever its value looks like; it is masked at every depth.
SECRET_FIELDS = frozenset({"password", "ls_password", "secret", "token", "authorization", "cookie"})
MASK = "***"

# Libraries that log what they receive, whole requests with passwords included, below this level.
_TALKATIVE = ("websockets",)
_TALKATIVE_LEVEL = logging.WARNING

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# The same warning or error is written this often within so many seconds; further ones are counted, and told in one line
# at the end of that time. Without it a fault that comes with every event would fill the disk and slow everybody down.
MAX_REPEATS = 20
REPEAT_SECONDS = 10.0

# Warnings and errors that are told apart for that; while there are more, new ones are written without being counted.
MAX_KINDS = 1_000

_RESERVED = frozenset({"time", "level", "logger", "event"})


class Log:
    """
    The log of one module: `log.info("session opened", session=id, user=user)`.

    The event is a fixed phrase to search for; everything that varies is a field.
    """

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: object) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._write(logging.ERROR, event, fields)

    def raised(self, event: str, exception: BaseException | None, /, **fields: object) -> None:
        """An error with an exception that is not being handled here, such as one of another thread."""
        self._write(logging.ERROR, event, fields, exception or False)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error with the exception being handled and its traceback."""
        self._write(logging.ERROR, event, fields, True)

    def _write(
        self, level: int, event: str, fields: Mapping[str, object], exception: BaseException | bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, exc_info=exception, extra={"fields": fields})


def get(name: str) -> Log:
    """The log of a module: `log = get(__name__)`."""
    return Log(logging.getLogger(name))


def configure(level: str, format: str, max_repeats: int = MAX_REPEATS) -> None:
    """Send every log of the process to standard error; a second call replaces the first.

    The same warning or error is written `max_repeats` times within REPEAT_SECONDS, 0 for any number of times.
    """
    formatter: logging.Formatter = JsonFormatter() if format == "json" else TextFormatter()
    handler = LimitedHandler(sys.stderr, Repeats(max_repeats))
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for earlier in [found for found in root.handlers if isinstance(found, LimitedHandler)]:
        root.removeHandler(earlier)
        earlier.close()
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(max(_LEVELS[level], _TALKATIVE_LEVEL))


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


class LimitedHandler(logging.StreamHandler):  # type: ignore[type-arg]  # generic for mypy only, not at run time
    """Writes lines, but not the same one for ever. What it holds back is told in time, by a thread if by nobody else.

    Also a class of its own, so that `configure` replaces what it installed and nothing else.
    """

    def __init__(self, stream: TextIO, repeats: Repeats) -> None:
        super().__init__(stream)
        self._repeats = repeats
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held."""
        self._tell()
        if self._repeats.admit(record):
            super().emit(record)
        elif self._timer is None:
            self._start_timer()

    def close(self) -> None:
        """What is held back is told now."""
        with self._locked():
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._tell(at_once=True)
        super().close()

    def _tell(self, at_once: bool = False) -> None:
        for record in self._repeats.ended(at_once):
            super().emit(record)

    def _start_timer(self) -> None:
        seconds = self._repeats.next_end()
        if seconds is not None:
            self._timer = threading.Timer(seconds, self._time_is_over)
            self._timer.daemon = True
            self._timer.start()

    def _time_is_over(self) -> None:
        with self._locked():
            self._timer = None
            self._tell()
            self._start_timer()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()


class TextFormatter(logging.Formatter):
    """`2026-11-15T08:00:00.123Z INFO  penstock.doors.tlcp session opened session=S12 user=alice`"""

    def format(self, record: logging.LogRecord) -> str:
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        parts = [_time(record), f"{level:<5}", _one_line(record.name), _one_line(record.getMessage())]
        parts += [f"{_one_line(name)}={_text(value)}" for name, value in _fields(record).items()]
        return " ".join(parts)


class JsonFormatter(logging.Formatter):
    """One object: time, level, logger, event, then the fields; a field named like one of those gets a `_`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in _RESERVED else name] = value
        return json.dumps(line)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields as plain data, secrets masked, with the exception of the record as fields of their own."""
    given = getattr(record, "fields", None)
    fields = _masked(given) if isinstance(given, Mapping) else {}
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields["error"] = f"{type(error).__name__}: {error}"
        fields["traceback"] = logging.Formatter().formatException(record.exc_info)
    return fields


def _masked(fields: Mapping[object, object]) -> dict[str, object]:
    return {
        str(name): MASK if str(name).lower().replace("-", "_") in SECRET_FIELDS else _plain(value)
        for name, value in fields.items()
    }


def _plain(value: object) -> object:
    """What JSON can say as it is; anything else as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).decode("utf-8", "backslashreplace")
        case Mapping():
            return _masked(value)
        case list() | tuple() | set() | frozenset():
            return [_plain(entry) for entry in value]
        case _:
            return str(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        if value and value.isprintable() and not any(character in ' "=\\' for character in value):
            return value
        return json.dumps(value, ensure_ascii=not value.isprintable())
    if isinstance(value, dict | list):
        # Quoted as a whole, so that what follows an unquoted "=" never holds a space.
        return _text(json.dumps(value, separators=(",", ":")))
    return json.dumps(value)


def _one_line(text: str) -> str:
    """Text outside quotes, with what would break the line escaped."""
    return text if text.isprintable() else json.dumps(text)[1:-1]
