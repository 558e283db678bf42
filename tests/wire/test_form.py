"""What both text protocols read of a request; which request has which parameters is in the tests of each protocol."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.wire.form import (
    FormError,
    Parameters,
    malformed,
    parse_line,
    readable,
    shown,
    shown_name,
    split_lines,
    syntax,
)

# As many digits as a number may have.
NINES = "9" * 15


def test_an_error_says_its_message_and_whether_the_line_is_a_form_at_all() -> None:
    for error, is_malformed in ((malformed("why"), True), (syntax("why"), False)):
        assert (str(error), error.message, error.is_malformed) == ("why", "why", is_malformed)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a\r\n", ["a"]),
        ("a\r\nb", ["a", "b"]),
        ("a\r\n\r\n", ["a", ""]),
        ("\r\n", [""]),
    ],
)
def test_the_separator_after_the_last_line_is_optional(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


def test_a_name_is_shown_if_it_is_one() -> None:
    assert shown_name("a" * 60) == "a" * 60
    for text in ("a" * 61, "", "bind 1", "é"):
        assert shown_name(text) == "(not a name)"


def test_a_value_is_shown_as_far_as_it_is_not_too_long_and_no_password() -> None:
    assert shown("a", "x" * 60) == "a=" + "x" * 60
    assert shown("a", "x" * 61) == "a=" + "x" * 60 + "…"
    assert shown("LS_Password", "secret") == "LS_Password=***"


def test_a_line_is_pairs_of_which_empty_ones_do_not_count() -> None:
    assert parse_line("") == {}
    assert parse_line("&a=1&&b=%3D+%26&c=&") == {"a": "1", "b": "= &", "c": ""}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a=1\nb=2", "A line break that is not CR-LF; inside values it must be percent-encoded"),
        ("a=1\r", "A line break that is not CR-LF; inside values it must be percent-encoded"),
        ("a=1&b", "Expected name=value as part 2 of the line"),
        ("=1", "Expected name=value as part 1 of the line"),
        ("a=1&b=2&%61=3", "Parameter a is given twice"),
        ("a=%4", "Bad percent-encoding in the value of a"),
        ("a=%ff", "The percent-encoded value of a is not UTF-8"),
    ],
)
def test_a_line_that_is_no_form_is_refused(line: str, message: str) -> None:
    with pytest.raises(FormError) as caught:
        parse_line(line)
    assert (caught.value.message, caught.value.is_malformed) == (message, True)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("", None),
        ("b=1", None),
        ("x&a=1", "1"),
        ("%zz=1&a=2", "2"),
        ("%61=1+1", "1 1"),
        ("a=%zz&a=2", "2"),
        ("a=", ""),
        ("a=1&a=1", None),
        ("a=&a=2", None),
    ],
)
def test_a_parameter_can_be_read_in_what_is_no_form_unless_it_is_there_twice(line: str, value: str | None) -> None:
    assert readable(line, "a") == value


GIVEN = Parameters({"zero": "0", "one": "1", "minus": "-1", "long": NINES, "yes": "true", "no": "false", "half": ".5"})


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda: GIVEN.text("one"), "1"),
        (lambda: GIVEN.text("none"), None),
        (lambda: GIVEN.required("one"), "1"),
        (lambda: GIVEN.integer("zero", 0), 0),
        (lambda: GIVEN.integer("one", 1), 1),
        (lambda: GIVEN.integer("long", 1), int(NINES)),
        (lambda: GIVEN.integer("none", 1), None),
        (lambda: GIVEN.required_integer("zero", 0), 0),
        (lambda: GIVEN.any_integer("minus"), -1),
        (lambda: GIVEN.any_integer("long"), int(NINES)),
        (lambda: GIVEN.any_integer("none"), None),
        (lambda: GIVEN.boolean("yes", False), True),
        (lambda: GIVEN.boolean("no", True), False),
        (lambda: GIVEN.boolean("none", True), True),
        (lambda: GIVEN.boolean("none", False), False),
        (lambda: GIVEN.choice("yes", ("false", "true")), "true"),
        (lambda: GIVEN.rate("none", ("unlimited",)), None),
        (lambda: GIVEN.rate("yes", ("true",)), "true"),
        (lambda: GIVEN.rate("half", ()), 0.5),
        (lambda: GIVEN.rate("long", ()), float(NINES)),
    ],
)
def test_a_value_is_read_as_what_it_is_to_be(read: Callable[[], object], value: object) -> None:
    assert read() == value


WRONG = Parameters({"empty": "", "zero": "0", "long": f"{NINES}0", "word": "x", "password": "x"})


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: WRONG.required("none"), "none is missing"),
        (lambda: WRONG.required("empty"), "empty is empty"),
        (lambda: WRONG.integer("zero", 1), "zero=0: expected a whole number from 1"),
        (lambda: WRONG.integer("long", 1), f"long={NINES}0: expected a whole number from 1"),
        (lambda: WRONG.integer("password", 1), "password=***: expected a whole number from 1"),
        (lambda: WRONG.required_integer("none", 1), "none is missing"),
        (lambda: WRONG.any_integer("word"), "word=x: expected a whole number"),
        (lambda: WRONG.any_integer("long"), f"long={NINES}0: expected a whole number"),
        (lambda: WRONG.boolean("word", True), "word=x: expected true or false"),
        (lambda: WRONG.choice("word", ("y", "z")), "word=x: expected one of y z"),
        (lambda: WRONG.rate("zero", ()), "zero=0: expected a decimal number above 0"),
        (lambda: WRONG.rate("long", ("y",)), f"long={NINES}0: expected a decimal number above 0 or y"),
        (lambda: WRONG.rate("word", ("y",)), "word=x: expected a decimal number above 0 or y"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_is(read: Callable[[], object], message: str) -> None:
    with pytest.raises(FormError) as caught:
        read()
    assert (caught.value.message, caught.value.is_malformed) == (message, False)


def test_what_nobody_has_asked_for_is_unknown() -> None:
    parameters = Parameters({"a": "1", "b": "true", "c": "", "d": "2"})
    assert list(parameters.unknown()) == ["a", "b", "c", "d"]
    parameters.integer("a", 0)
    parameters.boolean("b", False)
    parameters.text("e")
    assert list(parameters.unknown()) == ["c", "d"]
