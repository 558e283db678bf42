import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from penstock import log
from penstock.log.handler import Writer
from penstock.log.lines import MAX_DEPTH, MAX_TEXT, SECRET_WORDS, JsonFormatter, TextFormatter

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


@pytest.mark.parametrize("name", [*sorted(SECRET_WORDS), "LS_password", "Authorization", "LS-Password"])
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
    assert "test_lines.py" in either.line()


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
    # Without one that a server in the same process has left: that is replaced.
    before = [each for each in root_logger.handlers if not isinstance(each, Writer)]
    log.configure("info", "text")
    log.configure("info", "text")
    assert len(root_logger.handlers) == len(before) + 1
    assert set(before) <= set(root_logger.handlers)


# -- what strangers send ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a b", "a=1 user", 'q"', "", "back\\slash", "x\u202ey", "line\nbreak", "\ud800"])
def test_a_hostile_name_of_a_field_stays_one_name(text: Captured, name: str) -> None:
    text.log.info("event", **{name: "v"})
    written = fields(text.line()).removesuffix("=v")
    assert written == json.dumps(name, ensure_ascii=not name.isprintable())


def test_an_event_that_looks_like_fields_is_quoted(text: Captured) -> None:
    logging.getLogger("penstock.doors.test").error("refused %s", "x user=root")
    assert text.line().endswith(r' "refused x user=root"')


@pytest.mark.parametrize("breaker", ["\n", "\r", "\x0b", "\x1b[2J", "\x85", "\u2028", "\u202e", "\ud800"])
def test_a_hostile_logger_does_not_break_the_line(breaker: str) -> None:
    record = logging.LogRecord(f"quotes{breaker}x", logging.INFO, "", 0, "event", None, None)
    assert TextFormatter().format(record).isprintable()
    assert json.loads(JsonFormatter().format(record))["logger"] == f"penstock.library.quotes{breaker}x"


def test_a_long_text_is_cut_and_its_length_told(either: Captured) -> None:
    either.log.info("event", user="x" * 1_000_000, headers=["y" * 1_000_000])
    assert len(either.line()) < 2 * MAX_TEXT + 500
    assert either.line().count("(1,000,000 characters)") == 2


def test_what_is_nested_too_deeply_is_left_out(either: Captured) -> None:
    deep: object = "bottom"
    for _ in range(5_000):
        deep = [deep]
    either.log.info("event", deep=deep)
    assert "bottom" not in either.line()
    assert either.line().count("[") == MAX_DEPTH


def test_a_huge_number_is_described(structured: Captured) -> None:
    structured.log.info("event", number=10**6000, small=-(10**30))
    assert (structured.object()["number"], structured.object()["small"]) == ("a number of 19932 bits", -(10**30))


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_value_without_a_text_does_not_lose_the_line(structured: Captured) -> None:
    structured.log.info("event", value=Mute(), inside={"k": [Mute()]})
    assert structured.object()["value"] == "<Mute without a text>"
    assert structured.object()["inside"] == {"k": ["<Mute without a text>"]}


def test_a_library_whose_arguments_do_not_fit_does_not_lose_its_line() -> None:
    record = logging.LogRecord("quotes", logging.ERROR, "", 0, "%d of %s", ("three",), None)
    assert json.loads(JsonFormatter().format(record))["event"] == "%d of %s ['three']"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("postgresql://hub:hunter2@db.example/tlex", "postgresql://hub:***@db.example/tlex"),
        ("LS_user=alice&LS_password=hunter2&LS_cid=x", "LS_user=alice&LS_password=***&LS_cid=x"),
        ("GET /feed?access_token=hunter2 failed", "GET /feed?access_token=*** failed"),
        ("Authorization: Bearer hunter2", "Authorization: ***"),
        ("{'cookie': 'hunter2'}", "{'cookie': ***"),
        ("https://example.com:8080/a@b", "https://example.com:8080/a@b"),
    ],
)
def test_a_secret_inside_a_text_is_masked(structured: Captured, text: str, written: str) -> None:
    try:
        raise RuntimeError(text)
    except RuntimeError:
        structured.log.exception(text, value=text, inside=[text])
    found = structured.object()
    assert (found["event"], found["value"], found["inside"]) == (written, written, [written])
    assert found["error"] == f"RuntimeError: {written}"
    assert "hunter2" not in structured.line()


@pytest.mark.parametrize("name", ["jwt_secret", "hubToken", "X-Access-Token", "db.password", "clientSecret"])
def test_a_name_with_a_secret_word_in_it_is_one_of_a_secret(either: Captured, name: str) -> None:
    either.log.info("event", **{name: SECRET})
    assert SECRET not in either.line()
