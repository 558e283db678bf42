"""Structured logs: an event and its fields, always on one line, through standard logging.

Not here: what is worth logging, which each room decides. The hot path of an update logs nothing.
Read next: docs/configuration.md, "Logs".
"""

import logging
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from penstock.log.files import LogFile
from penstock.log.handler import Writer
from penstock.log.levels import LevelError, Levels, check_level
from penstock.log.lines import JsonFormatter, TextFormatter
from penstock.log.relay import LogRelay, RelayedLines
from penstock.log.repeats import MAX_REPEATS, Repeats
from penstock.log.request import RequestNumber, incident
from penstock.log.taps import LogLine, Tap

__all__ = [
    "LevelError",
    "Log",
    "LogLine",
    "RelayedLines",
    "RequestNumber",
    "Tap",
    "change_levels",
    "check_level",
    "configure",
    "configure_levels",
    "get",
    "incident",
    "levels",
    "relay_to",
    "reopen",
    "set_level",
    "tap",
    "write_relayed",
]

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_levels = Levels()
_UNASKED = TextFormatter()


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
        logger = self._logger
        if logger.isEnabledFor(level):
            # Not by `Logger.log`, which first looks for the line of code that logs: no line of ours shows that.
            record = logging.LogRecord(logger.name, level, "", 0, event, None, _exc_info(exception))
            record.fields = fields
            if logger.hasHandlers():
                logger.handle(record)
            elif logging.lastResort is not None and level >= logging.lastResort.level:
                # In a program that sets up no logs: Python itself would print the event alone, without why.
                print(_UNASKED.format(record), file=sys.stderr)


def _exc_info(exception: BaseException | bool) -> _ExcInfo | None:
    if isinstance(exception, BaseException):
        return type(exception), exception, exception.__traceback__
    return sys.exc_info() if exception else None


def get(name: str) -> Log:
    """The log of a module: `log = get(__name__)`."""
    return Log(logging.getLogger(name))


def configure(
    level: str,
    format: str,
    max_repeats: int = MAX_REPEATS,
    *,
    levels: Mapping[str, str] | None = None,
    stderr: bool = True,
    file: str = "",
    file_bytes: int = 0,
    file_count: int = 0,
) -> None:
    """Send every log of the process to standard error, to a file, or to both; a second call replaces the first.

    The same warning or error is written `max_repeats` times within REPEAT_SECONDS, 0 for any number of times. Raises
    OSError if the file cannot be opened, LevelError for a wrong level; the log is then what it was, without its file.
    """
    root = logging.getLogger()
    earlier = [found for found in root.handlers if isinstance(found, Writer)]
    for handler in earlier:
        # It may have the same file.
        handler.close()
    opened = LogFile(Path(file), file_bytes, file_count) if file else None
    formatter = JsonFormatter() if format == "json" else TextFormatter()
    root.addHandler(Writer(formatter, sys.stderr if stderr else None, opened, Repeats(max_repeats)))
    for handler in earlier:
        root.removeHandler(handler)
    configure_levels(level, levels or {})


def relay_to(out: socket.socket, max_repeats: int = MAX_REPEATS) -> None:
    """Send every log of the process to another one, which writes it; a second call replaces the first. The levels are
    set by `configure_levels`.
    """
    root = logging.getLogger()
    for handler in [found for found in root.handlers if isinstance(found, LogRelay)]:
        root.removeHandler(handler)
    root.addHandler(LogRelay(out, Repeats(max_repeats)))


def write_relayed(records: list[logging.LogRecord]) -> None:
    """Write the lines of another process, which has seen to levels and repeats."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Writer):
            handler.write(records)


def configure_levels(level: str, levels: Mapping[str, str]) -> None:
    """The levels of the configuration; what was set while the process ran is forgotten. Raises a LevelError."""
    _levels.configure(level, levels)


def change_levels(level: str, levels: Mapping[str, str]) -> None:
    """The levels of another configuration; what was set while the process ran stays, except for categories of which
    that one says something else than the one before. Raises a LevelError.
    """
    _levels.change(level, levels)


def set_level(category: str, level: str | None) -> None:
    """From now on write a category from this level on; None: what the configuration says. Raises a LevelError."""
    _levels.set(category, level)


def set_levels_alone(levels: Mapping[str, str]) -> None:
    """What another process of the server has set over its configuration, and nothing else. Raises a LevelError."""
    _levels.set_alone(levels)


def levels_over() -> dict[str, str]:
    """Those that were set over the configuration while the process ran."""
    return _levels.over


def levels() -> dict[str, str]:
    """Every category that there is by now, with the level that counts for it."""
    return _levels.all()


def tap(callback: Callable[[LogLine], None], max_repeats: int = MAX_REPEATS) -> Tap:
    """Call `callback` with every line that is logged from now on, until `close` of what is returned.

    Each call is on the same thread, which belongs to the tap: whoever logs does not wait for it. While too many lines
    wait (`taps.MAX_WAITING`), further ones are counted (`Line.lost`). What the callback logs itself does not come back
    to it; what others log because of it does, warnings and errors within the limit of repeats.
    """
    made = Tap(callback, Repeats(max_repeats))
    logging.getLogger().addHandler(made)
    return made


def reopen() -> None:
    """Go on in a new log file if the old one was moved away."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Writer):
            handler.reopen()
