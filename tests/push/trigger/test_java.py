"""Java is the judge: what it computes for an expression is what a trigger computes, and what it refuses is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from penstock.push.refusals import PushRefusal
from penstock.push.trigger.failure import NoResult
from penstock.push.trigger.trigger import Trigger
from tests.push.trigger.expressions import FIELD_COUNT, VALUES, Maker
from tests.push.trigger.java import Values, judge

# What Java takes and a trigger does not: each compares, or chooses between, things in a way that nobody means.
STRICTER = (
    "compares the identity",
    "the two sides of : must have the same type",
    "takes (String) and is given",
    "has no methods here",
    "cannot be applied to",
    "must be a constant String",
)


def result(trigger: Trigger, values: Values) -> tuple[bool | None, str]:
    """None where Java throws, with the reason."""
    try:
        found: bool = trigger._run(values)
    except NoResult as failure:
        assert not trigger.matches(values)
        return None, str(failure)
    assert trigger.matches(values) is found
    return found, ""


def compare(expressions: list[tuple[str, list[Values]]], folder: Path) -> tuple[int, int]:
    """How many were taken and how many refused by Java; all disagreements are one failure."""
    wrong: list[str] = []
    taken = refused = 0
    for (expression, inputs), verdict in zip(expressions, judge(expressions, folder), strict=True):
        try:
            trigger = Trigger.compile(expression, FIELD_COUNT, None)
        except PushRefusal as refusal:
            if verdict.error is None and not any(text in refusal.text for text in STRICTER):
                wrong.append(f"{expression}\n  is refused ({refusal.text}), Java takes it")
            refused += 1
            continue
        if verdict.error is not None:
            wrong.append(f"{expression}\n  is taken, Java refuses it: {verdict.error}")
            continue
        taken += 1
        for values, expected in zip(inputs, verdict.results, strict=True):
            found, reason = result(trigger, values)
            if found is not expected:
                wrong.append(f"{expression}\n  on {values!r} is {found} ({reason}), {expected} in Java")
    assert not wrong, f"{len(wrong)} of {taken + refused}:\n" + "\n".join(wrong[:20])
    return taken, refused


@pytest.mark.timeout(300)
def test_expressions_made_at_random_are_what_java_says(tmp_path: Path) -> None:
    maker = Maker(Random(7))
    expressions = [(maker.boolean(), [maker.values() for _ in range(6)]) for _ in range(400)]
    taken, _ = compare(expressions, tmp_path)
    assert taken > 200


@pytest.mark.timeout(300)
def test_expressions_with_types_that_do_not_fit_are_refused_where_java_refuses_them(tmp_path: Path) -> None:
    maker = Maker(Random(99), stray=0.15)
    expressions = [(maker.boolean(), [maker.values() for _ in range(2)]) for _ in range(300)]
    taken, refused = compare(expressions, tmp_path)
    assert taken > 40
    assert refused > 40


@pytest.mark.timeout(300)
def test_every_value_is_read_and_written_as_java_does(tmp_path: Path) -> None:
    inputs: list[Values] = [(value, "1", "a") for value in VALUES]
    expressions = [
        "Double.parseDouble($[1]) > Double.parseDouble($[2])",
        "Float.parseFloat($[1]) > Float.parseFloat($[2])",
        "Integer.parseInt($[1]) >= Integer.parseInt($[2])",
        "Long.parseLong($[1]) >= Long.parseLong($[2])",
        "Float.parseFloat($[1]) == Double.parseDouble($[1])",
        "Math.round(Double.parseDouble($[1])) == Math.round(Float.parseFloat($[1]))",
        '("" + Float.parseFloat($[1])).equals("" + Double.parseDouble($[1]))',
        "$[1].toUpperCase().equals($[1])",
        "$[1].toLowerCase().equals($[1])",
        "$[1].toLowerCase().toUpperCase().equals($[1].toUpperCase())",
        "$[1].trim().equals($[1])",
        "$[1].equalsIgnoreCase($[3])",
        "$[1].length() == 2",
        "$[1].compareTo($[3]) > 0",
        "$[1].indexOf(128512) == 1",
        "$[1].charAt(0) == $[1].toUpperCase().charAt(0)",
        *(
            f'(""+Double.parseDouble($[1])).equals("{text}")'
            for text in ("1000.0", "0.001", "NaN", "-0.0", "9.223372036854776E18", "-Infinity", "17.5", "1.0E38")
        ),
    ]
    expressions += [f'$[1].equalsIgnoreCase("{text}")' for text in ("i", "I", "SS", "\u212a", "s", "αΣ", "ΑΣ")]
    taken, _ = compare([(expression, inputs) for expression in expressions], tmp_path)
    assert taken == len(expressions)
