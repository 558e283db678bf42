"""Structured logs on standard error: an event and its fields, always on one line, through standard logging.

Not here: what is worth logging, which each room decides. The hot path of an update logs nothing.
Read next: `[log]` in docs/configuration.md.
"""

import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

# A field with such a name carries a secret whatever its value looks like; it is masked at every depth.
SECRET_FIELDS = frozenset({"password", "ls_password", "secret", "token", "authorization", "cookie"})
MASK = "***"

# Libraries that log what they receive, whole requests with passwords included, below this level.
_TALKATIVE = ("websockets",)
_TALKATIVE_LEVEL = logging.WARNING

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
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

    def error(self, event: str, /, exception: BaseException | None = None, **fields: object) -> None:
        """An error; with an exception, such as one of another thread, its traceback as well."""
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


def configure(level: str, format: str) -> None:
    """Send every log of the process to standard error; a second call replaces the first."""
    formatter: logging.Formatter = JsonFormatter() if format == "json" else TextFormatter()
    handler = _Handler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for earlier in [found for found in root.handlers if isinstance(found, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(max(_LEVELS[level], _TALKATIVE_LEVEL))


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]  # generic for mypy only, not at run time
    """A class of its own, so that `configure` replaces what it installed and nothing else."""


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
