"""The functions that a trigger may call: methods of String, and static ones by the name of their class. No others.

Each is a list of overloads, from the narrowest types on: the first whose parameters take the arguments is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.push.thresholds import Reading
from penstock.push.trigger import numbers, strings
from penstock.push.trigger.failure import NoResult, Wrong
from penstock.push.trigger.operand import NUMBERS, Operand, Run, Type, folded, widened
from penstock.push.trigger.pattern import RegularExpression

# Steps that one `matches` may take: places of the pattern times characters of the text.
MAX_STEPS = 200_000

_B, _C, _I, _L = Type.BOOLEAN, Type.CHAR, Type.INT, Type.LONG
_F, _D, _S = Type.FLOAT, Type.DOUBLE, Type.STRING


@dataclass(frozen=True, slots=True)
class CallForm:
    parameters: tuple[Type, ...]
    result: Type
    function: Callable[..., Any]
    # Whether an argument may be null.
    takes_null: bool = False
    returns_object: bool = False


def _each(types: Sequence[Type], count: int, function: Callable[..., Any]) -> list[CallForm]:
    """An overload for each type, with parameters and a result of it."""
    return [CallForm((type_,) * count, type_, function) for type_ in types]


def _valued(type_: Type, function: Callable[..., Any]) -> list[CallForm]:
    return [CallForm((_S,), type_, function, returns_object=True)]


METHODS: dict[str, list[CallForm]] = {
    "charAt": [CallForm((_I,), _C, strings.char_at)],
    "compareTo": [CallForm((_S,), _I, strings.compare)],
    "contains": [CallForm((_S,), _B, lambda text, part: part in text)],
    "endsWith": [CallForm((_S,), _B, str.endswith)],
    "equals": [CallForm((_S,), _B, lambda text, other: text == other, takes_null=True)],
    "equalsIgnoreCase": [CallForm((_S,), _B, strings.equal_ignoring_case, takes_null=True)],
    "indexOf": [
        CallForm((_S,), _I, strings.index_of),
        CallForm((_S, _I), _I, strings.index_of),
        CallForm((_I,), _I, strings.index_of_char),
        CallForm((_I, _I), _I, strings.index_of_char),
    ],
    "isEmpty": [CallForm((), _B, lambda text: not text)],
    "length": [CallForm((), _I, len)],
    "startsWith": [CallForm((_S,), _B, strings.starts_with), CallForm((_S, _I), _B, strings.starts_with)],
    "substring": [CallForm((_I,), _S, strings.substring), CallForm((_I, _I), _S, strings.substring)],
    "toLowerCase": [CallForm((), _S, strings.lower)],
    "toUpperCase": [CallForm((), _S, strings.upper)],
    "trim": [CallForm((), _S, strings.trim)],
}
MATCHES = "matches"

FUNCTIONS: dict[str, list[CallForm]] = {
    "Boolean.parseBoolean": [
        CallForm((_S,), _B, lambda text: strings.equal_ignoring_case("true", text), takes_null=True)
    ],
    "Double.parseDouble": [CallForm((_S,), _D, numbers.parse_double)],
    "Double.valueOf": _valued(_D, numbers.parse_double),
    "Float.parseFloat": [CallForm((_S,), _F, numbers.parse_float)],
    "Float.valueOf": _valued(_F, numbers.parse_float),
    "Integer.parseInt": [CallForm((_S,), _I, numbers.parse_int)],
    "Integer.valueOf": _valued(_I, numbers.parse_int),
    "Long.parseLong": [CallForm((_S,), _L, numbers.parse_long)],
    "Long.valueOf": _valued(_L, numbers.parse_long),
    "Math.abs": [
        CallForm((_I,), _I, lambda number: numbers.to_int(abs(number))),
        CallForm((_L,), _L, lambda number: numbers.to_long(abs(number))),
        *_each((_F, _D), 1, abs),
    ],
    "Math.ceil": [CallForm((_D,), _D, numbers.ceil)],
    "Math.floor": [CallForm((_D,), _D, numbers.floor)],
    "Math.max": [*_each((_I, _L), 2, max), *_each((_F, _D), 2, numbers.greatest)],
    "Math.min": [*_each((_I, _L), 2, min), *_each((_F, _D), 2, numbers.least)],
    "Math.pow": [CallForm((_D, _D), _D, numbers.power)],
    "Math.round": [CallForm((_F,), _I, numbers.round_to_int), CallForm((_D,), _L, numbers.round_to_long)],
    "Math.sqrt": [CallForm((_D,), _D, numbers.sqrt)],
}
_READINGS = {
    "Double.parseDouble": Reading.DOUBLE,
    "Double.valueOf": Reading.DOUBLE,
    "Integer.parseInt": Reading.INT,
    "Integer.valueOf": Reading.INT,
    "Long.parseLong": Reading.LONG,
    "Long.valueOf": Reading.LONG,
}


def function_call(name: str, arguments: list[Operand], place: int) -> Operand:
    """`name` is one of FUNCTIONS."""
    overload = _chosen(name, FUNCTIONS[name], arguments, place)
    runs = _arguments(name, overload, arguments)
    made = Operand(overload.result, _called(overload.function, runs), place, is_boxed=overload.returns_object)
    return folded(made, *arguments) if not overload.returns_object else made


def reading(name: str, field: int) -> tuple[int, Reading] | None:
    """What it is if the argument is exactly this field."""
    return (field, _READINGS[name]) if name in _READINGS else None


def method_call(name: str, text: Operand, arguments: list[Operand], place: int) -> Operand:
    """`name` is one of METHODS, `place` is its own; `text` is a String."""
    overload = _chosen(name, METHODS[name], arguments, place)
    runs = [_not_null(f"{name}() of a null", text.run), *_arguments(name, overload, arguments)]
    return folded(Operand(overload.result, _called(overload.function, runs), text.place), text, *arguments)


def matches_call(text: Operand, arguments: list[Operand], place: int) -> Operand:
    """The pattern is a constant, so that it is checked, and made, once."""
    if len(arguments) != 1 or arguments[0].type is not _S or not arguments[0].is_constant:
        raise Wrong(place, "matches() takes one argument, which must be a constant String")
    expression = strings.in_characters(arguments[0].run(()))
    try:
        pattern = RegularExpression(expression)
    except Wrong as wrong:
        raise Wrong(arguments[0].place, f"the regular expression, character {wrong.place + 1}: {wrong.text}") from None
    run = _not_null("matches() of a null", text.run)

    def matches(values: Any) -> bool:
        found: str = run(values)
        if len(found) * pattern.size > MAX_STEPS:
            raise NoResult(f"a text of {len(found)} characters is too long for its regular expression")
        return pattern.matches(strings.in_characters(found))

    return folded(Operand(_B, matches, text.place), text)


def _chosen(name: str, overloads: list[CallForm], arguments: list[Operand], place: int) -> CallForm:
    for overload in overloads:
        if len(overload.parameters) == len(arguments) and all(map(_takes, overload.parameters, arguments)):
            return overload
    allowed = " or ".join(f"({', '.join(type_.value for type_ in each.parameters)})" for each in overloads)
    given = ", ".join(argument.type.value for argument in arguments)
    raise Wrong(place, f"{name} takes {allowed} and is given ({given})")


def _takes(parameter: Type, argument: Operand) -> bool:
    if parameter is _S:
        return argument.is_text
    return argument.is_number and NUMBERS.index(argument.type) <= NUMBERS.index(parameter)


def _arguments(name: str, overload: CallForm, arguments: list[Operand]) -> list[Run]:
    runs: list[Run] = []
    for parameter, argument in zip(overload.parameters, arguments, strict=True):
        if parameter is not _S:
            runs.append(widened(argument, parameter))
        elif overload.takes_null:
            runs.append(argument.run)
        else:
            runs.append(_not_null(f"{name}() is given a null", argument.run))
    return runs


def _not_null(what: str, run: Run) -> Run:
    def checked(values: Any) -> Any:
        found = run(values)
        if found is None:
            raise NoResult(f"NullPointerException: {what}")
        return found

    return checked


def _called(function: Callable[..., Any], runs: list[Run]) -> Run:
    match runs:
        case [only]:
            return lambda values: function(only(values))
        case [first, second]:
            return lambda values: function(first(values), second(values))
    return lambda values: function(*[run(values) for run in runs])
