"""How an event and its fields become one line, as text or as JSON, with secrets masked whatever they are hidden in.

Not here: which lines are written (levels, repeats), and where to (handler, files).
Read next: docs/configuration.md, "Logs".
"""

import json
import logging
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

MASK = "***"

# A field that has one of these words in its name carries a secret whatever its value looks like, at every depth.
SECRET_WORDS = frozenset(
    {
        *("authorization", "cookie", "credential", "credentials", "passphrase", "passwd", "password", "passwords"),
        *("secret", "secrets", "token", "tokens"),
    }
)

# Characters of one text in a line. Names and values come from strangers, too: they must not fill the disk.
MAX_TEXT = 16_384

# Names of fields that are kept with what has been found out about them; those used least go first.
MAX_NAMES = 500

# Tables and lists inside one another; deeper ones are left out.
MAX_DEPTH = 8

# The loggers of libraries, and of adapters that use standard logging, are categories under this one.
LIBRARY = "penstock.library"

_WORD = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_SECRET_IN_TEXT = re.compile(
    # The password of an address, such as that of a database.
    r"(?P<address>://[^/\s:@]*):[^/\s@]*(?=@)"
    # A parameter of a request.
    r"|(?P<parameter>(?i:\b\w*(?:password|passwd|secret|token)=))[^&\s\"',;]+"
    # A header of a request.
    r"|(?P<header>(?i:\b(?:authorization|cookie)[\"']?:\s*))[^\r\n]+"
)
# A value of these characters needs no quotes, if all of them can be printed.
_UNQUOTED = re.compile(r'[^ "=\\]+')
_RESERVED = frozenset({"time", "level", "logger", "event"})


class TextFormatter(logging.Formatter):
    """`2026-11-15T08:00:00.123Z INFO  penstock.doors.tlcp session opened session=S12 user=alice`"""

    def format(self, record: logging.LogRecord) -> str:
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        return f"{_time(record)} {level:<5} {_bare(category_of(record.name))} {message(record, fields_of(record))}"


class JsonFormatter(logging.Formatter):
    """One object: time, level, logger, event, then the fields; a field named like one of those gets a `_`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": category_of(record.name),
            "event": event_of(record),
        }
        for name, value in fields_of(record).items():
            line[f"{name}_" if name in _RESERVED else name] = value
        return json.dumps(line)


def category_of(logger: str) -> str:
    """The category of a logger: its name, under that of all libraries if it is not one of ours."""
    if logger == "penstock" or logger.startswith("penstock."):
        return logger
    return LIBRARY if logger == "root" else f"{LIBRARY}.{logger}"


def message(record: logging.LogRecord, fields: Mapping[str, object]) -> str:
    """The event and its fields as text. An event that could be taken for fields is quoted."""
    event = event_of(record)
    parts = [json.dumps(event) if "=" in event else _bare(event)]
    parts += [f"{_name(name)}={_text(value)}" for name, value in fields.items()]
    return " ".join(parts)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields as plain data, secrets masked; the number of the request that the line is about, and the exception of
    the record, are fields of their own.
    """
    given = getattr(record, "fields", None)
    fields = _masked(given, 0) if isinstance(given, Mapping) else {}
    number = getattr(record, "number", None)
    if number is not None:
        fields.setdefault("number", number)
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields["error"] = _censored(f"{type(error).__name__}: {_said(error)}")
        fields["traceback"] = _censored(logging.Formatter().formatException(record.exc_info))
    return fields


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def event_of(record: logging.LogRecord) -> str:
    """What it says, without its fields."""
    try:
        return _censored(record.getMessage())
    except Exception:
        # A library whose arguments do not fit its message.
        return _censored(f"{_said(record.msg)} {_plain(record.args, 0)}")


def _masked(fields: Mapping[object, object], depth: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in fields.items():
        shown, is_secret = _named(name if type(name) is str else _said(name))
        found[shown] = MASK if is_secret else _plain(value, depth)
    return found


@lru_cache(MAX_NAMES)
def _named(name: str) -> tuple[str, bool]:
    """The name of a field as it is shown, and whether its value is a secret. The code has few names for fields, so that
    they are looked at once; those of others, such as headers, go again.
    """
    return _censored(name), any(word.lower() in SECRET_WORDS for word in _WORD.split(name))


def _plain(value: object, depth: int) -> object:
    """What JSON can say as it is; anything else as text."""
    if type(value) is str:
        return _censored(value)
    match value:
        case None | bool():
            return value
        case int():
            # Larger ones cannot be written, or only slowly.
            return value if abs(value) < 1 << 128 else f"a number of {value.bit_length()} bits"
        case str():
            return _censored(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return _censored(bytes(value).decode("utf-8", "backslashreplace"))
        case Mapping() | list() | tuple() | set() | frozenset() if depth >= MAX_DEPTH:
            return "…"
        case Mapping():
            return _masked(value, depth + 1)
        case list() | tuple() | set() | frozenset():
            return [_plain(entry, depth + 1) for entry in value]
        case _:
            return _censored(_said(value))


def _said(value: object) -> str:
    """Its text; what adapters raise or log may have none."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} without a text>"


def _censored(text: str) -> str:
    """The text without secrets, and not longer than a line may hold."""
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
    # All that is looked for has one of these, and most texts have neither.
    return _SECRET_IN_TEXT.sub(_mask, text) if "=" in text or ":" in text else text


def _mask(found: re.Match[str]) -> str:
    if found["address"]:
        return f"{found['address']}:{MASK}"
    return f"{found['parameter'] or found['header']}{MASK}"


@lru_cache(MAX_NAMES)
def _name(name: str) -> str:
    """The name of a field as text: the same few come again and again."""
    return _text(name)


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        if _UNQUOTED.fullmatch(value) is not None and value.isprintable():
            return value
        return json.dumps(value, ensure_ascii=not value.isprintable())
    if isinstance(value, dict | list):
        # Quoted as a whole, so that what follows an unquoted "=" never holds a space.
        return _text(json.dumps(value, separators=(",", ":")))
    return json.dumps(value)


def _bare(text: str) -> str:
    """Text outside quotes, with what would break the line escaped."""
    return text if text.isprintable() else json.dumps(text)[1:-1]
