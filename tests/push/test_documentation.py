"""The page about formats and triggers says what is so: its examples are read and run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.push import arguments
from penstock.push import format as formats
from penstock.push.format import MAX_DEPTH as FORMAT_DEPTH
from penstock.push.format import MAX_LENGTH as FORMAT_LENGTH
from penstock.push.format import Format
from penstock.push.refusals import PushRefusal
from penstock.push.trigger.members import FUNCTIONS, MATCHES, MAX_STEPS, METHODS
from penstock.push.trigger.parser import MAX_DEPTH, MAX_PARTS, MAX_PATTERNS
from penstock.push.trigger.pattern import RegularExpression
from penstock.push.trigger.strings import MAX_LENGTH as MAX_STRING
from penstock.push.trigger.trigger import MAX_LENGTH, Trigger

PAGE = (Path(__file__).parents[2] / "docs" / "push-triggers.md").read_text("utf-8")


def section(title: str) -> str:
    return re.split(r"^#+ ", PAGE.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the tables, without their heads."""
    lines = [line.strip("| ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)] for line in lines]


TRIGGERS = [row for row in rows(section("Triggers")) if row[0].startswith("`") and len(row) == 2]


def test_the_format_is_converted_and_filled_in_as_the_page_says() -> None:
    written, converted, payload = re.findall(r"```json\n(.*?)\n```", PAGE)
    assert formats.names(written) == ("stock_name", "last_price")
    made = Format.parse(written, 2, positions={"stock_name": 1, "last_price": 2})
    assert made.text == converted
    assert made.fill(("Anduct", "13.63"), 5) == payload


@pytest.mark.parametrize(("text", "said"), TRIGGERS)
def test_a_trigger_of_the_page_is_what_it_says(text: str, said: str) -> None:
    expression = text.strip("`")
    if said.startswith(("true", "false")):
        assert Trigger.compile(expression, 2, None).matches(("17.5", "open")) == said.startswith("true")
    else:
        with pytest.raises(PushRefusal) as refusal:
            Trigger.compile(expression, 2, None)
        assert f"`{refusal.value.text}`" == said


def test_there_are_triggers_of_all_three_kinds() -> None:
    assert len(TRIGGERS) == 12


def test_all_functions_and_methods_are_named_and_no_others() -> None:
    named = {row[0]: set(re.findall(r"`([\w.]+)`", row[1])) for row in rows(section("Triggers")) if len(row) == 2}
    assert named["methods of a string"] == {*METHODS, MATCHES}
    assert named["functions"] - {"java.lang."} == set(FUNCTIONS)


def test_the_limits_are_those_of_the_code() -> None:
    numbers = [int(row[1].replace(",", "")) for row in rows(section("Limits"))[1:] if row[1][0].isdigit()]
    assert numbers == [MAX_LENGTH, MAX_PARTS, MAX_DEPTH, MAX_PATTERNS, MAX_STRING, MAX_STEPS]
    assert f"{FORMAT_LENGTH:,} characters and {FORMAT_DEPTH} levels" in section("Notification formats")


def test_the_accept_pattern_accepts_what_the_page_says() -> None:
    (text,) = re.findall(r"```\n(.*?)\n```", section("Accept patterns"))
    accepted = Trigger.compile("Double.parseDouble($[1]) > 500.0", 1, [RegularExpression(text)])
    assert accepted.threshold is not None
    with pytest.raises(PushRefusal):
        Trigger.compile("System.exit(0)", 1, [RegularExpression(text)])


def test_the_arguments_of_the_page_are_arguments() -> None:
    first, second = (row[0].strip("`") for row in rows(section("Arguments"))[-2:])
    assert arguments.convert(first + second, {"last_price": 2}, 2) == "$[1]$[2]"
