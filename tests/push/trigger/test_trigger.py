"""Triggers: every refusal with its place and reason, what an evaluation does where Java throws, and bounded cost."""

from __future__ import annotations

import time
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.push.refusals import PushReason, PushRefusal
from penstock.push.trigger.failure import NoResult
from penstock.push.trigger.parser import MAX_DEPTH, MAX_PARTS, parse
from penstock.push.trigger.pattern import RegularExpression
from penstock.push.trigger.strings import MAX_LENGTH as MAX_STRING
from penstock.push.trigger.trigger import MAX_LENGTH, Trigger
from tests.push.trigger.expressions import FIELD_COUNT, Maker


def holds(text: str, *values: str | None) -> bool:
    return Trigger.compile(text, len(values), None).matches(values)


def refusal(text: str) -> PushRefusal:
    with pytest.raises(PushRefusal) as refused:
        Trigger.compile(text, 2, None)
    return refused.value


# -- what is accepted -------------------------------------------------------------------------------------------------

ACCEPTED = [
    RegularExpression(r"Double\.parseDouble\(\$\[\d+\]\) [<>] [+-]?(\d*\.)?\d+"),
    RegularExpression(r"\$\[\d+\]\.equals\(.*\)"),
]


def test_one_of_the_accept_patterns_must_match_the_whole_text() -> None:
    assert Trigger.compile("Double.parseDouble($[1]) > 500.0", 1, ACCEPTED).matches(("501",))
    assert Trigger.compile('$[1].equals("x")', 1, ACCEPTED).matches(("x",))
    with pytest.raises(PushRefusal) as refused:
        Trigger.compile("Double.parseDouble($[1]) > 500.0 || true", 1, ACCEPTED)
    assert refused.value.reason is PushReason.TRIGGER
    assert refused.value.text == "the trigger matches none of the application's 2 accepted patterns"


def test_without_accept_patterns_no_trigger_is_accepted() -> None:
    with pytest.raises(PushRefusal) as refused:
        Trigger.compile("true", 1, [])
    assert refused.value.reason is PushReason.TRIGGER
    assert refused.value.text == "the application accepts no triggers: none are configured for it"


def test_what_is_accepted_must_still_be_an_expression() -> None:
    with pytest.raises(PushRefusal, match=r"System\.exit is not known; allowed are Boolean\.parseBoolean, "):
        Trigger.compile("System.exit(0)", 1, [RegularExpression(".*")])


# -- what is refused --------------------------------------------------------------------------------------------------

ADVICE = "; Double.parseDouble(…) makes a number of a String"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        # The text.
        ("$[1] # 2", 6, "the character '#' has no meaning here"),
        ("$[1].equals(“a”)", 13, "the character '“' has no meaning here"),
        ('$[1].equals("a)', 13, "a String has no closing quote on its line"),
        ("'ab' == 'a'", 1, "a char must be one character between single quotes; write double quotes for a String"),
        ("'😀' == 'a'", 1, "'😀' is not a char, which has 16 bits; use double quotes for a String"),
        ("$ > 1", 1, "a $ must begin an argument such as $[1]"),
        ('$[1].equals("\\q")', 14, "\\q is not an escape sequence of Java; write \\\\ for a backslash"),
        ('"a $[1]".isEmpty()', 1, 'an argument inside quotes is not replaced; write "…" + $[1]'),
        ("1 // 2", 3, "comments are not supported"),
        ("true /* x */", 6, "comments are not supported"),
        ("5--5 > 1", 2, "the sign -- is not supported"),
        ("true & false", 6, "the sign & is not supported: write && for both"),
        ("true = false", 6, "the sign = is not supported: an assignment is not allowed; == compares"),
        ("true;", 5, "the sign ; is not supported: a trigger is one expression and has no ;"),
        ("1 >> 2 == 0", 3, "the sign >> is not supported"),
        # Numbers.
        ("12abc > 1", 1, "12 is not a number"),
        ("1_ > 1", 1, "1_ is not a number"),
        ("09 > 1", 1, "09 is not a number"),
        ("0b12 > 1", 1, "0b12 is not a number"),
        ("2147483648 > 1", 1, "2147483648 is beyond the largest number of its type"),
        ("2147483649 > 1", 1, "2147483649 is larger than 2147483647; write an L behind it for a long"),
        ("9223372036854775809L > 1", 1, "9223372036854775809L is larger than 9223372036854775807"),
        ("0x1FFFFFFFF > 1", 1, "0x1FFFFFFFF has more than 32 bits"),
        ("1e400 > 1", 1, "1e400 is too large for a double"),
        ("1e-400 < 1", 1, "1e-400 is too small for a double"),
        ("1e39f > 1", 1, "1e39f is too large for a float"),
        ("9" * 5_000 + " > 1", 1, "9" * 40 + "… is not a number"),
        # The grammar.
        ("(true", 6, "the end is there instead of )"),
        ("((", 3, "the end is there instead of a value"),
        ("true)", 5, ") is there instead of an operator or the end"),
        ("true false", 6, "false is there instead of an operator or the end"),
        ("true &&", 8, "the end is there instead of a value"),
        ("&& true", 1, "&& is there instead of a value"),
        ("true ? false", 13, "the end is there instead of :"),
        ("$[1].5", 5, ".5 is there instead of an operator or the end"),
        ("$[1]. length() > 1 > 2", 20, "> cannot be applied to a boolean and an int"),
        ("$[1].length > 1", 13, "> is there instead of ("),
        ("$[1].equals(,)", 13, ", is there instead of a value"),
        ("Math.", 6, "the end is there instead of a name"),
        # Names.
        ("foo == 1", 1, None),
        ("LS_MPN_field1 == null", 1, None),
        ("System.exit(0)", 1, None),
        ('java.lang.Runtime.getRuntime().exec("rm").equals(null)', 1, None),
        (
            "__import__('os')",
            12,
            "a char must be one character between single quotes; write double quotes for a String",
        ),
        ("new String().isEmpty()", 1, None),
        ("$[1].getClass() == null", 6, None),
        ("$[1].length().length() > 1", 15, "an int has no methods here; those of a String may be called"),
        ("null.length() > 1", 6, "null has no methods here; those of a String may be called"),
        # Types.
        ("$[1]", 1, "a trigger must be a boolean; this is a String"),
        ("1 + 1", 1, "a trigger must be a boolean; this is an int"),
        ("Double.valueOf($[1])", 1, "a trigger must be a boolean; this is an object with a number (double)"),
        ("$[1] > 500.0", 6, "> cannot be applied to a String and a double" + ADVICE),
        ("$[1] == 5", 6, "== cannot be applied to a String and an int" + ADVICE),
        ("$[1] - 5 > 1", 6, "- cannot be applied to a String and an int" + ADVICE),
        ("-$[1] > 1", 1, "- needs a number and has a String" + ADVICE),
        ("!$[1]", 1, "! needs a boolean and has a String"),
        ("true && 1", 6, "&& needs a boolean on both sides and has an int"),
        ("1 || true", 3, "|| needs a boolean on both sides and has an int"),
        ("true > false", 6, "> cannot be applied to a boolean and a boolean"),
        ("1 < 2 < 3", 7, "< cannot be applied to a boolean and an int"),
        ("true == 1", 6, "== cannot be applied to a boolean and an int"),
        ("5 == null", 3, "== cannot be applied to an int and null"),
        ("1 ? true : false", 3, "? needs a boolean in front of it and has an int"),
        (
            "true ? 1 : $[1]",
            6,
            "the two sides of : must have the same type; they are an int and a String",
        ),
        ('$[1] == "x"', 6, "== compares the identity of Strings, not their text; write a.equals(b)"),
        ("$[1] != $[2]", 6, "!= compares the identity of Strings, not their text; write !a.equals(b)"),
        (
            "Double.valueOf($[1]) == Double.valueOf($[2])",
            22,
            "== compares the identity of two objects, not their numbers; write parse… instead of valueOf",
        ),
        ("Math.abs() > 1", 1, "Math.abs takes (int) or (long) or (float) or (double) and is given ()"),
        ("Integer.parseInt(5) > 1", 1, "Integer.parseInt takes (String) and is given (int)"),
        ("$[1].charAt(1L) == 'a'", 6, "charAt takes (int) and is given (long)"),
        ("$[1].equals(5)", 6, "equals takes (String) and is given (int)"),
        ("$[1].substring(1, 2, 3).isEmpty()", 6, "substring takes (int) or (int, int) and is given (int, int, int)"),
        # Regular expressions.
        ("$[1].matches($[2])", 6, "matches() takes one argument, which must be a constant String"),
        ("$[1].matches()", 6, "matches() takes one argument, which must be a constant String"),
        ('$[1].matches("(a")', 14, "the regular expression, character 1: an opening ( has no closing one"),
        (" || ".join(['$[1].matches("a")'] * 6), 111, "more than 5 regular expressions"),
        # Limits.
        ("!" * 60 + "true", 51, f"it is nested more than {MAX_DEPTH} levels deep"),
        ("(" * 5_000, 51, f"it is nested more than {MAX_DEPTH} levels deep"),
        ("true ? " * 1_000 + "true", None, f"it is nested more than {MAX_DEPTH} levels deep"),
        ("true" + " || true" * 300, None, f"it has more than {MAX_PARTS} literals, arguments, operators and calls"),
    ],
)
def test_what_is_no_trigger_is_refused_with_place_and_reason(text: str, place: int | None, said: str | None) -> None:
    refused = refusal(text)
    assert refused.reason is PushReason.TRIGGER
    assert refused.text.startswith("trigger, character " if place is None else f"trigger, character {place}: ")
    if said is None:
        assert " is not known; allowed are " in refused.text
    else:
        assert refused.text.endswith(f": {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$[3].isEmpty()", "trigger, character 1: the index 3 is out of range; the subscription's fields are 1 to 2"),
        ("${a}.isEmpty()", "trigger, character 1: the name 'a' is not a field of the subscription"),
        ("1 > $[x]", "trigger, character 5: the index 'x' is not a whole number; write $[1] for the first field"),
    ],
)
def test_a_wrong_argument_is_a_reason_of_its_own(text: str, said: str) -> None:
    assert (refusal(text).reason, refusal(text).text) == (PushReason.ARGUMENT, said)


@pytest.mark.parametrize("text", ["", " \t\n"])
def test_an_empty_trigger_is_refused(text: str) -> None:
    assert refusal(text).reason is PushReason.TRIGGER
    assert refusal(text).text == "the trigger is empty; it must be an expression that is a boolean"


@pytest.mark.parametrize("accept", [None, [RegularExpression(".*")]])
def test_a_trigger_of_100_kb_is_refused_before_anybody_looks_at_it(accept: list[RegularExpression] | None) -> None:
    with pytest.raises(PushRefusal) as refused:
        Trigger.compile("(" * 100_000, 1, accept)
    assert refused.value.reason is PushReason.TOO_LONG
    assert refused.value.text == f"the trigger has 100000 characters; {MAX_LENGTH} are allowed"


# -- evaluation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("Integer.parseInt($[1]) / Integer.parseInt($[2]) == 0", ("1", "0"), "ArithmeticException: / by zero"),
        ("Integer.parseInt($[1]) % 0 == 0", ("1", "0"), "ArithmeticException: / by zero"),
        ("1 / 0 == 0", ("1", "0"), "ArithmeticException: / by zero"),
        ("Double.parseDouble($[1]) > 1", ("x", ""), 'NumberFormatException: For input string: "x"'),
        ("Double.parseDouble($[2]) > 1", ("x", ""), 'NumberFormatException: For input string: ""'),
        ("Integer.parseInt($[1]) > 1", ("1.5", ""), 'NumberFormatException: For input string: "1.5"'),
        ("Long.parseLong($[1]) > 1", ("9" * 99, ""), f'NumberFormatException: For input string: "{"9" * 40}…"'),
        ("Double.parseDouble($[1]) > 1", (None, ""), "NullPointerException: Double.parseDouble() is given a null"),
        ("$[1].length() > 1", (None, ""), "NullPointerException: length() of a null"),
        ("$[1].contains($[2])", ("a", None), "NullPointerException: contains() is given a null"),
        ("$[1].charAt(1) == 'a'", ("a", ""), "StringIndexOutOfBoundsException: index 1, length 1"),
        ("$[1].substring(2).isEmpty()", ("a", ""), "StringIndexOutOfBoundsException: begin 2, end 1, length 1"),
        (
            "$[1].isEmpty()",
            ("x" * 10_001, ""),
            f"a field has 10001 characters; triggers read {MAX_STRING} at most",
        ),
        ("($[1] + $[1]).isEmpty()", ("x" * 6_000, ""), f"a concatenation has more than {MAX_STRING} characters"),
        ("$[1].toUpperCase().isEmpty()", ("ß" * 6_000, ""), f"a string has more than {MAX_STRING} characters"),
        (
            '$[1].matches("(a|b|c|d|e|f|g|h){9}.*")',
            ("x" * 9_000, ""),
            "a text of 9000 characters is too long for its regular expression",
        ),
    ],
)
def test_where_java_would_throw_it_is_false_for_a_reason(text: str, values: tuple[str | None, ...], said: str) -> None:
    assert not holds(text, *values)
    with pytest.raises(NoResult) as failed:
        parse(text).run(values)
    assert str(failed.value) == said


def test_the_right_side_is_not_evaluated_where_the_left_one_decides() -> None:
    assert not holds("$[1] != null && $[1].length() > 1", None)
    assert holds("$[1] == null || $[1].length() > 1", None)
    assert holds("$[1] == null ? true : $[1].isEmpty()", None)


@pytest.mark.parametrize(
    "text",
    [
        "2147483647 + 1 == -2147483648",
        "-2147483648 - 1 == 2147483647",
        "-(-2147483648) == -2147483648",
        "-2147483648 / -1 == -2147483648",
        "Math.abs(-2147483648) == -2147483648",
        "9223372036854775807L + 1 == -9223372036854775808L",
        "2147483647 + 1L == 2147483648L",
        "46341 * 46341 == -2147479015",
        "7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1",
        "7 / 2.0 == 3.5",
        "0.1 + 0.2 != 0.3",
        "0.1f + 0.2f == 0.3f",
        "0.1f != 0.1",
        "16777216f + 1 == 16777216",
        "0.0 / 0 != 0.0 / 0",
        "!(0.0 / 0 > 1) && !(0.0 / 0 <= 1)",
        "1.0 / 0 > 1e308 && -1.0 / 0 < -1e308 && 1 / -0.0 < 0",
        "0.0 == -0.0",
        '(1 + 2 + "3" + 4 + 5).equals("3345")',
        '("" + null + true + 1.0 + 1e7 + 1.5f + \'c\' + 5L).equals("nulltrue1.01.0E71.5c5")',
        "'a' + 1 == 98",
        "'a' < 'b'",
        '("" + \'a\' + 1).equals("a1")',
        "Math.round(2.5) == 3 && Math.round(-2.5) == -2 && Math.round(0.49999999999999994) == 0",
        "Math.floor(-1.5) == -2 && Math.ceil(-1.5) == -1 && 1 / Math.ceil(-0.5) < 0",
        "1 / Math.min(0.0, -0.0) < 0 && 1 / Math.max(-0.0, 0.0) > 0",
        "Math.pow(2, 10) == 1024 && Math.pow(0, -1) > 1e308 && Math.pow(1, 0.0 / 0) != 1",
        "Math.sqrt(-1) != Math.sqrt(-1)",
        '"😀".length() == 2 && "😀".indexOf("😀".charAt(1)) == 1',
        '"b".compareTo("a") == 1 && "ab".compareTo("abcd") == -2',
        '"abc".indexOf("", 9) == 3 && "abc".indexOf(\'b\') == 1 && "abc".indexOf("z") == -1',
        '"TITLE".equalsIgnoreCase("title") && !"ß".equalsIgnoreCase("SS") && "ß".toUpperCase().equals("SS")',
        '"\\u00a0".trim().length() == 1 && " \\t\\n".trim().isEmpty()',
        "true ? 1 == 1.0 : false",
        "false ? false : true ? true : false",
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 10 - 4 - 3 == 3",
        "true || false && false",
        "1 < 2 == true",
        "0x7fffffff + 0b1 == -017777777777 - 1",
        "0xFFFFFFFF == -1 && 1_000 == 1000",
        'Boolean.parseBoolean("TRUE") && !Boolean.parseBoolean("yes") && !Boolean.parseBoolean(null)',
        'Double.valueOf("5") == 5 && Integer.valueOf("5") + 1 == 6',
    ],
)
def test_java_would_say_so_too(text: str) -> None:
    assert holds(text)


_INTS = st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]))
_LONGS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]))


@given(_LONGS, _LONGS, st.sampled_from("+-*"), st.sampled_from(["int32", "int64"]))
def test_whole_numbers_overflow_as_those_of_a_machine(first: int, second: int, sign: str, width: str) -> None:
    cut = np.array([first, second], "int64").astype(width)
    with np.errstate(over="ignore"):
        expected = {"+": cut[0] + cut[1], "-": cut[0] - cut[1], "*": cut[0] * cut[1]}[sign]
    read = "Integer.parseInt" if width == "int32" else "Long.parseLong"
    text = f"{read}($[1]) {sign} {read}($[2]) == {read}($[3])"
    assert holds(text, str(cut[0]), str(cut[1]), str(expected))


@given(st.floats(width=32), st.floats(width=32), st.sampled_from("+-*/"), st.sampled_from(["float32", "float64"]))
def test_real_numbers_are_rounded_as_those_of_a_machine(first: float, second: float, sign: str, width: str) -> None:
    pair = np.array([first, second], width)
    with np.errstate(all="ignore"):
        expected = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[sign](pair[0], pair[1])
    read = "Float.parseFloat" if width == "float32" else "Double.parseDouble"
    values = [_java(float(number)) for number in (*pair, expected)]
    equal = holds(f"{read}($[1]) {sign} {read}($[2]) == {read}($[3])", *values)
    assert equal == (expected == expected)


def _java(number: float) -> str:
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(number), repr(number))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(0, 25))
def test_a_float_is_read_as_the_nearest_to_its_text(number: float, digits: int) -> None:
    text = f"{number:.{digits}e}"
    assert holds("Float.parseFloat($[1]) == Double.parseDouble($[2])", text, repr(float(np.float32(text))))


@pytest.mark.parametrize(
    "text", ["16777217.0000000000000000001", "16777216.9999999999999999999", "16777217", "-16777219"]
)
def test_a_float_is_not_rounded_twice(text: str) -> None:
    """The text is so near to the middle of two floats that a double is the middle itself."""
    expected = {"16777217.0000000000000000001": "16777218", "16777216.9999999999999999999": "16777216"}
    near = {"16777217": "16777216", "-16777219": "-16777220"}
    assert holds("Float.parseFloat($[1]) == Double.parseDouble($[2])", text, (expected | near)[text])


# -- anything ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_any_expression_that_is_taken_is_a_boolean_on_any_values(seed: int) -> None:
    maker = Maker(Random(seed), stray=0.02)
    text = maker.boolean()
    try:
        trigger = Trigger.compile(text, FIELD_COUNT, None)
    except PushRefusal:
        return
    for _ in range(5):
        assert trigger.matches(maker.values()) in (True, False)


_TOKENS = st.sampled_from(
    [
        *(
            "$[1]",
            "$[2]",
            "$",
            "${",
            "null",
            "true",
            "1",
            "2.5",
            "3L",
            "4f",
            "0x",
            "1e",
            "'a'",
            '"b"',
            '"a*"',
            '"("',
            "'",
        ),
        *("(", ")", "&&", "||", "!", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "?", ":", ".", ",", "\\", '"'),
        *("Double.parseDouble(", "Math.max(", ".matches(", ".equals(", ".charAt(", ".length()"),
    ]
)


@given(st.lists(_TOKENS, max_size=15).map(" ".join))
def test_any_text_is_a_trigger_or_refused(text: str) -> None:
    try:
        trigger = Trigger.compile(text, 2, None)
    except PushRefusal:
        return
    assert trigger.matches(("1", None)) in (True, False)


WORST = [
    " || ".join(["$[1].contains($[2])"] * 120),
    " || ".join(["$[1].toUpperCase().equals($[2])"] * 100),
    " || ".join(["$[1].equalsIgnoreCase($[2])"] * 120),
    " || ".join(["$[1].compareTo($[2]) > 0"] * 80),
    " || ".join(["Double.parseDouble($[3]) < 0"] * 80),
    " || ".join(['$[2].matches("(a|b)*a(a|b){5}c")'] * 5),
    " + ".join(["$[1]"] * 200) + " == null",
]


@pytest.mark.parametrize("text", WORST)
def test_the_dearest_expressions_on_the_longest_values_cost_less_than_a_second(text: str) -> None:
    trigger = Trigger.compile(text, 3, None)
    values = ("a" * 4_999 + "é" + "a" * 4_999, "A" * 4_999 + "É" + "A" * 5_000, "9" * 10_000)
    begin = time.process_time()
    trigger.matches(values)
    assert time.process_time() - begin < 1
