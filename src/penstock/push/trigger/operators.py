"""The operators: which types they take, and what they compute. Types that Java refuses are refused with advice."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from penstock.push.thresholds import Reading, Relation, Threshold
from penstock.push.trigger.failure import Wrong
from penstock.push.trigger.numbers import (
    divide,
    divide_whole,
    double_text,
    float_text,
    remainder,
    remainder_whole,
    to_float,
    to_int,
    to_long,
)
from penstock.push.trigger.operand import NUMBERS, Operand, Run, Type, folded, widened
from penstock.push.trigger.strings import concatenate

_WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide_whole,
    "%": remainder_whole,
}
_REAL: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "%": remainder,
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_CUT: dict[Type, Callable[[Any], Any]] = {Type.INT: to_int, Type.LONG: to_long, Type.FLOAT: to_float}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


def binary(sign: str, left: Operand, right: Operand, place: int) -> Operand:
    """`place` is that of the sign, which errors name."""
    if sign in ("&&", "||"):
        made = _logical(sign, left, right, place)
    elif sign in ("==", "!="):
        made = _equality(sign, left, right, place)
    elif sign in _ORDER:
        _need_numbers(sign, left, right, place)
        made = _comparison(sign, left, right)
    elif sign == "+" and Type.STRING in (left.type, right.type):
        made = _concatenation(left, right)
    else:
        _need_numbers(sign, left, right, place)
        made = _arithmetic(sign, left, right)
    return folded(made, left, right)


def negation(operand: Operand, place: int) -> Operand:
    if operand.type is not Type.BOOLEAN:
        raise Wrong(place, f"! needs a boolean and has {operand.kind}")
    run = operand.run
    return folded(Operand(Type.BOOLEAN, lambda values: not run(values), place), operand)


def signed(sign: str, operand: Operand, place: int) -> Operand:
    if not operand.is_number:
        raise Wrong(place, f"{sign} needs a number and has {operand.kind}{_advice(operand)}")
    type_ = _promoted(operand)
    run = operand.run
    if sign == "+":
        return folded(Operand(type_, run, place), operand)
    cut = _CUT.get(type_)
    if cut is None:
        return folded(Operand(type_, lambda values: -run(values), place), operand)
    return folded(Operand(type_, lambda values: cut(-run(values)), place), operand)


def conditional(condition: Operand, then: Operand, other: Operand, place: int) -> Operand:
    if condition.type is not Type.BOOLEAN:
        raise Wrong(place, f"? needs a boolean in front of it and has {condition.kind}")
    type_ = _common(then, other, place)
    test = condition.run
    if then.is_number:
        first, second = widened(then, type_), widened(other, type_)
    else:
        first, second = then.run, other.run
    made = Operand(type_, lambda values: first(values) if test(values) else second(values), condition.place)
    made.is_boxed = then.is_boxed and other.is_boxed and then.type is other.type
    return folded(made, condition, then, other)


def _common(then: Operand, other: Operand, place: int) -> Type:
    if then.type is other.type:
        return then.type
    if then.is_text and other.is_text:
        return Type.STRING
    if then.is_number and other.is_number and Type.CHAR not in (then.type, other.type):
        return _promoted(then, other)
    raise Wrong(place, f"the two sides of : must have the same type; they are {then.kind} and {other.kind}")


def _logical(sign: str, left: Operand, right: Operand, place: int) -> Operand:
    for operand in (left, right):
        if operand.type is not Type.BOOLEAN:
            raise Wrong(place, f"{sign} needs a boolean on both sides and has {operand.kind}")
    first, second = left.run, right.run
    run: Run
    if sign == "&&":
        run = lambda values: first(values) and second(values)  # noqa: E731
    else:
        run = lambda values: first(values) or second(values)  # noqa: E731
    return Operand(Type.BOOLEAN, run, left.place)


def _equality(sign: str, left: Operand, right: Operand, place: int) -> Operand:
    if left.is_text and right.is_text:
        if Type.NULL not in (left.type, right.type):
            opposite = "!" if sign == "!=" else ""
            raise Wrong(place, f"{sign} compares the identity of Strings, not their text; write {opposite}a.equals(b)")
    elif left.is_boxed and right.is_boxed:
        raise Wrong(
            place, f"{sign} compares the identity of two objects, not their numbers; write parse… instead of valueOf"
        )
    elif left.type is not Type.BOOLEAN or right.type is not Type.BOOLEAN:
        _need_numbers(sign, left, right, place)
        return _comparison(sign, left, right)
    return _compared(sign, left, left.run, right.run)


def _comparison(sign: str, left: Operand, right: Operand) -> Operand:
    type_ = _promoted(left, right)
    made = _compared(sign, left, widened(left, type_), widened(right, type_))
    if right.is_constant:
        made.threshold = _threshold(sign, left, right, type_)
    elif left.is_constant and sign in _MIRRORED:
        made.threshold = _threshold(_MIRRORED[sign], right, left, type_)
    return made


def _compared(sign: str, left: Operand, first: Run, second: Run) -> Operand:
    compare = _ORDER[sign]
    return Operand(Type.BOOLEAN, lambda values: compare(first(values), second(values)), left.place)


def _threshold(sign: str, field: Operand, fixed: Operand, type_: Type) -> Threshold | None:
    if field.reading is None or sign == "!=":
        return None
    position, reading = field.reading
    if reading is Reading.LONG and type_ is not Type.LONG:
        # Java rounds the field then, and so its neighbours are equal to the constant.
        return None
    number = widened(fixed, type_)(())
    if number != number:
        return None
    return Threshold(position, reading, Relation(sign), number)


def _arithmetic(sign: str, left: Operand, right: Operand) -> Operand:
    type_ = _promoted(left, right)
    first, second = widened(left, type_), widened(right, type_)
    compute: Callable[[Any, Any], Any] = _WHOLE[sign] if type_ in (Type.INT, Type.LONG) else _REAL[sign]
    cut = _CUT.get(type_)
    if cut is None:
        return Operand(type_, lambda values: compute(first(values), second(values)), left.place)
    return Operand(type_, lambda values: cut(compute(first(values), second(values))), left.place)


def _concatenation(left: Operand, right: Operand) -> Operand:
    first, second = _text(left), _text(right)
    return Operand(Type.STRING, lambda values: concatenate(first(values), second(values)), left.place)


def _text(operand: Operand) -> Run:
    """The function for what Java writes of it into a String."""
    run = operand.run
    match operand.type:
        case Type.STRING | Type.NULL:
            return lambda values: "null" if (text := run(values)) is None else text
        case Type.BOOLEAN:
            return lambda values: "true" if run(values) else "false"
        case Type.CHAR:
            return lambda values: chr(run(values))
        case Type.FLOAT:
            return lambda values: float_text(run(values))
        case Type.DOUBLE:
            return lambda values: double_text(run(values))
    return lambda values: str(run(values))


def _promoted(*operands: Operand) -> Type:
    """Int at least, else the widest."""
    return max((Type.INT, *(operand.type for operand in operands)), key=NUMBERS.index)


def _need_numbers(sign: str, left: Operand, right: Operand, place: int) -> None:
    if left.is_number and right.is_number:
        return
    advice = next((found for found in map(_advice, (left, right)) if found), "")
    raise Wrong(place, f"{sign} cannot be applied to {left.kind} and {right.kind}{advice}")


def _advice(operand: Operand) -> str:
    return "; Double.parseDouble(…) makes a number of a String" if operand.type is Type.STRING else ""
