"""The sorted index of thresholds fires what evaluating them one by one fires."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from penstock.push.thresholds import Reading, Relation, Threshold, Thresholds
from penstock.push.trigger.strings import MAX_LENGTH
from penstock.push.trigger.trigger import Trigger

SIGNS = [">", ">=", "<", "<=", "=="]
READERS = ["Double.parseDouble", "Double.valueOf", "Integer.parseInt", "Long.parseLong"]
CONSTANTS = [
    "17",
    "17.0",
    "-3",
    "0",
    "-0.0",
    "2147483647",
    "9007199254740993L",
    "1e3",
    "(1 + 1)",
    "0.1",
    "16.9",
    "1.0 / 0",
]
VALUES = [
    *(
        "17",
        "17.0",
        "17.5",
        "-3",
        "0",
        "-0.0",
        "2147483647",
        "9007199254740993",
        "9007199254740992",
        "1000",
        "2",
        "0.1",
    ),
    *("NaN", "Infinity", "-Infinity", "x", "", "1" * (MAX_LENGTH + 1), None),
]


def compiled(text: str) -> Trigger:
    return Trigger.compile(text, 2, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Double.parseDouble($[2]) > 500.0", Threshold(1, Reading.DOUBLE, Relation.GREATER, 500.0)),
        ("500 >= (java.lang.Double.parseDouble(($[1])))", Threshold(0, Reading.DOUBLE, Relation.AT_MOST, 500.0)),
        ("Integer.parseInt($[1]) == -(2 + 3)", Threshold(0, Reading.INT, Relation.EQUAL, -5)),
        ("7 < Long.valueOf($[1])", Threshold(0, Reading.LONG, Relation.GREATER, 7)),
    ],
)
def test_a_comparison_of_one_field_with_a_constant_is_a_threshold(text: str, expected: Threshold) -> None:
    assert compiled(text).threshold == expected


@pytest.mark.parametrize(
    "text",
    [
        "Double.parseDouble($[1]) != 5",
        "Double.parseDouble($[1]) > Double.parseDouble($[2])",
        "Double.parseDouble($[1]) + 1 > 5",
        "-Double.parseDouble($[1]) > 5",
        "!(Double.parseDouble($[1]) > 5)",
        "Double.parseDouble($[1].trim()) > 5",
        "Double.parseDouble($[1]) > 0.0 / 0",
        "Double.parseDouble($[1]) > 1 / 0",
        "Double.parseDouble($[1]) > 5 && true",
        "Float.parseFloat($[1]) > 5",
        "Long.parseLong($[1]) > 5.0",
        "$[1].length() > 5",
        "5 > 4",
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert compiled(text).threshold is None


@given(
    st.sampled_from(READERS), st.sampled_from(SIGNS), st.sampled_from(CONSTANTS), st.booleans(), st.sampled_from(VALUES)
)
def test_a_threshold_is_the_trigger_it_was_made_of(
    reader: str, sign: str, constant: str, is_swapped: bool, value: str | None
) -> None:
    field = f"{reader}($[1])"
    trigger = compiled(f"{constant} {sign} {field}" if is_swapped else f"{field} {sign} {constant}")
    if trigger.threshold is None:
        assert reader == "Long.parseLong"
        return
    index = Thresholds()
    index.add("a", trigger.threshold)
    assert (index.fired((value, None)) == ["a"]) == trigger.matches((value, None))


class Model(RuleBasedStateMachine):
    """Many triggers come and go; what fires is what a list of them says."""

    triggers: Bundle[str] = Bundle("triggers")

    @initialize()
    def begin(self) -> None:
        self.index = Thresholds()
        self.model: dict[str, Trigger] = {}
        self.made = 0

    @rule(
        target=triggers,
        field=st.integers(1, 2),
        reader=st.sampled_from(["Double.parseDouble", "Integer.parseInt"]),
        sign=st.sampled_from(SIGNS),
        constant=st.integers(-20, 20),
        halves=st.booleans(),
    )
    def add(self, field: int, reader: str, sign: str, constant: int, halves: bool) -> str:
        trigger = compiled(f"{reader}($[{field}]) {sign} {constant}{'.5' if halves else ''}")
        assert trigger.threshold is not None
        self.made += 1
        self.model[str(self.made)] = trigger
        self.index.add(str(self.made), trigger.threshold)
        return str(self.made)

    @rule(identifier=consumes(triggers))
    def remove(self, identifier: str) -> None:
        del self.model[identifier]
        self.index.remove(identifier)
        self.index.remove(identifier)

    @rule(numbers=st.tuples(*[st.one_of(st.integers(-44, 44), st.none())] * 2))
    def update(self, numbers: tuple[int | None, ...]) -> None:
        values = tuple(None if number is None else f"{number / 2:g}" for number in numbers)
        fired = self.index.fired(values)
        assert len(fired) == len(set(fired))
        assert set(fired) == {identifier for identifier, trigger in self.model.items() if trigger.matches(values)}

    @invariant()
    def has_as_many(self) -> None:
        assert len(self.index) == len(self.model)


TestModel = Model.TestCase
TestModel.settings = settings(stateful_step_count=25)


def test_a_hundred_thousand_that_wait_and_one_constant_for_all_of_them_cost_nothing_to_speak_of() -> None:
    """Adding and removing is not a walk through all the others: this would take minutes if it were."""
    index = Thresholds()
    for number in range(100_000):
        constant = 17.0 if number % 2 else float(-number)
        index.add(str(number), Threshold(0, Reading.DOUBLE, Relation.LESS, constant))
    assert index.fired(("18",)) == []
    assert len(index.fired(("16",))) == 50_000
    for number in range(100_000):
        index.remove(str(number))
    assert len(index) == 0
    assert index.fired(("-1e9",)) == []


def test_a_field_that_is_no_number_fires_nothing_and_disturbs_no_other_field() -> None:
    index = Thresholds()
    index.add("a", Threshold(0, Reading.DOUBLE, Relation.GREATER, -math.inf))
    index.add("b", Threshold(1, Reading.INT, Relation.GREATER, 1))
    assert index.fired(("x", "2")) == ["b"]
    assert index.fired(("1", "2.0")) == ["a"]
    assert index.fired((None, None)) == []
