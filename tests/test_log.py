import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from penstock import log
from penstock.log import SECRET_FIELDS, JsonFormatter, TextFormatter

SECRET = "hunter2"


class Captured:
    """A log whose lines a test can read, under a logger of its own."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self._stream = io.StringIO()
        self._handler = logging.StreamHandler(self._stream)
        self._handler.setFormatter(formatter)
        self._logger = logging.getLogger("penstock.doors.test")
        self._logger.addHandler(self._handler)
        self._logger.setLevel(logging.DEBUG)
        self._logger.propagate = False
        self.log = log.get("penstock.doors.test")

    def line(self) -> str:
        """The only line written so far."""
        (line,) = self._stream.getvalue().splitlines()
        return line

    def object(self) -> dict[str, object]:
        found = json.loads(self.line())
        assert isinstance(found, dict)
        return found

    def close(self) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.propagate = True
        self._logger.setLevel(logging.NOTSET)


@pytest.fixture
def text() -> Iterator[Captured]:
    captured = Captured(TextFormatter())
    yield captured
    captured.close()


@pytest.fixture
def structured() -> Iterator[Captured]:
    captured = Captured(JsonFormatter())
    yield captured
    captured.close()


@pytest.fixture(params=[TextFormatter, JsonFormatter])
def either(request: pytest.FixtureRequest) -> Iterator[Captured]:
    captured = Captured(request.param())
    yield captured
    captured.close()


def fields(line: str) -> str:
    return line.partition(" event ")[2]


def test_a_text_line_has_time_level_logger_event_and_fields(text: Captured) -> None:
    text.log.info("session opened", session="S12", user="alice", items=3, ratio=0.5, fast=True, group=None)
    time, rest = text.line().split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == (
        "INFO  penstock.doors.test session opened session=S12 user=alice items=3 ratio=0.5 fast=true group=null"
    )


def test_the_time_is_utc_with_milliseconds_even_on_a_whole_second() -> None:
    record = logging.LogRecord("penstock", logging.INFO, "", 0, "event", None, None)
    record.created = 1794729600.0
    assert TextFormatter().format(record).startswith("2026-11-15T08:00:00.000Z ")


@pytest.mark.parametrize(("method", "level"), [("debug", "DEBUG"), ("warning", "WARN "), ("error", "ERROR")])
def test_levels_line_up_in_text(text: Captured, method: str, level: str) -> None:
    getattr(text.log, method)("event")
    assert f"Z {level} penstock.doors.test event" in text.line()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain-1.2:3/é", "plain-1.2:3/é"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a=b", '"a=b"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("a\r\nb", r'"a\r\nb"'),
        ("a\u2028b", r'"a\u2028b"'),
        ("a\x85b", r'"a\u0085b"'),
        ("\x1b[31m", r'"\u001b[31m"'),
        ("\udcff", r'"\udcff"'),
        (b"raw\xff", r'"raw\\xff"'),
        (float("nan"), "nan"),
        (["a", 1], r'"[\"a\",1]"'),
        ({"k": "v w"}, r'"{\"k\":\"v w\"}"'),
        (ValueError("bad thing"), '"bad thing"'),
    ],
)
def test_values_are_quoted_and_escaped_where_needed(text: Captured, value: object, written: str) -> None:
    text.log.info("event", value=value)
    assert fields(text.line()) == f"value={written}"


@pytest.mark.parametrize("breaker", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_one_event_is_one_line_whatever_it_holds(either: Captured, breaker: str) -> None:
    forged = f"x{breaker}2026-11-15T08:00:00.123Z INFO  penstock login user=root"
    either.log.warning(f"event {forged}", **{f"name{breaker}": 1, "value": forged, "inside": [{"k": forged}]})
    assert "login" in either.line()


def test_an_event_is_not_a_format_string(text: Captured) -> None:
    text.log.info("100% of %s {0}")
    assert text.line().endswith(" 100% of %s {0}")


@pytest.mark.parametrize("name", [*sorted(SECRET_FIELDS), "LS_password", "Authorization", "LS-Password"])
def test_a_secret_never_reaches_the_log(either: Captured, name: str) -> None:
    either.log.info("request", **{name: SECRET}, headers={name: SECRET, "Accept": "*/*"}, batch=[{name: SECRET}])
    assert SECRET not in either.line()
    assert either.line().count("***") == 3
    assert "*/*" in either.line()


def test_a_masked_field_does_not_tell_whether_it_was_set(text: Captured) -> None:
    text.log.info("event", password=None, token="")
    assert fields(text.line()) == "password=*** token=***"


def test_an_exception_stays_on_its_line(either: Captured) -> None:
    try:
        raise RuntimeError("first\nsecond")
    except RuntimeError:
        either.log.exception("request failed", id="E1")
    assert "RuntimeError: first" in either.line()
    assert "Traceback (most recent call last)" in either.line()
    assert "test_log.py" in either.line()


def test_exception_outside_a_handler_is_an_ordinary_error(structured: Captured) -> None:
    structured.log.exception("request failed")
    assert set(structured.object()) == {"time", "level", "logger", "event"}


def test_a_json_line_is_one_object_with_the_fields_beside_the_event(structured: Captured) -> None:
    structured.log.warning("limit reached", session="S 1", count=3, share=float("inf"), open=True, tags=("a", b"b"))
    found = structured.object()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(found.pop("time")))
    assert found == {
        "level": "warning",
        "logger": "penstock.doors.test",
        "event": "limit reached",
        "session": "S 1",
        "count": 3,
        "share": "inf",
        "open": True,
        "tags": ["a", "b"],
    }


def test_a_field_cannot_replace_what_the_line_says_of_itself(structured: Captured) -> None:
    structured.log.info("event", event="other", level="none", self="me")
    found = structured.object()
    assert (found["event"], found["level"]) == ("event", "info")
    assert (found["event_"], found["level_"], found["self"]) == ("other", "none", "me")


def test_events_of_other_libraries_take_the_same_shape(structured: Captured) -> None:
    logging.getLogger("penstock.doors.test").error("from %s:%d", "a library", 7)
    assert structured.object()["event"] == "from a library:7"


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield root
    root.setLevel(level)
    root.handlers[:] = handlers


def test_configure_writes_to_standard_error_from_its_level_on(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log.configure("warning", "text")
    log.get("penstock.one").info("quiet")
    log.get("penstock.one").warning("loud", n=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("WARN  penstock.one loud n=1\n")
    assert len(err.splitlines()) == 1


def test_configuring_again_replaces_what_was_configured(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log.configure("debug", "text")
    log.configure("info", "json")
    log.get("penstock.one").info("once")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "once"


def test_other_handlers_of_the_process_stay(root_logger: logging.Logger) -> None:
    before = list(root_logger.handlers)
    log.configure("info", "text")
    log.configure("info", "text")
    assert len(root_logger.handlers) == len(before) + 1
    assert set(before) <= set(root_logger.handlers)
