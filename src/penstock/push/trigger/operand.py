"""What an expression is while it is read: its type in Java, and the function that computes it for an update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.push.pace import Values
from penstock.push.thresholds import Reading, Threshold
from penstock.push.trigger.failure import NoResult
from penstock.push.trigger.numbers import to_float

# Of a value whose type in Java is known: int (char as its code), float, bool, str or None.
Run = Callable[[Values], Any]


class Type(Enum):
    """The values are what Java calls them."""

    BOOLEAN = "boolean"
    CHAR = "char"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "String"
    NULL = "null"


# From the narrowest on: each becomes any later one by itself.
NUMBERS = (Type.CHAR, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)


@dataclass(slots=True)
class Operand:
    type: Type
    run: Run
    # The character where it begins, from 0.
    place: int
    is_constant: bool = False
    # An object around a number, as `Double.valueOf` returns it: == would compare objects.
    is_boxed: bool = False
    # Exactly this field: its position from 0.
    field: int | None = None
    # Exactly this field, read in this way.
    reading: tuple[int, Reading] | None = None
    # Exactly this comparison.
    threshold: Threshold | None = None

    @property
    def is_number(self) -> bool:
        return self.type in NUMBERS

    @property
    def is_text(self) -> bool:
        return self.type in (Type.STRING, Type.NULL)

    @property
    def kind(self) -> str:
        """Its type, for people."""
        if self.is_boxed:
            return f"an object with a number ({self.type.value})"
        match self.type:
            case Type.NULL:
                return "null"
            case Type.INT:
                return "an int"
        return f"a {self.type.value}"


def constant(type_: Type, value: Any, place: int) -> Operand:
    return Operand(type_, lambda values: value, place, is_constant=True)


def folded(operand: Operand, *parts: Operand) -> Operand:
    """The same as a constant, if all parts are constants and it has a result."""
    if not all(part.is_constant for part in parts):
        return operand
    try:
        return constant(operand.type, operand.run(()), operand.place)
    except NoResult:
        # It fails for every update, as it would throw in Java.
        return operand


def widened(operand: Operand, type_: Type) -> Run:
    """The function for a number as one of a type that is as wide or wider."""
    run = operand.run
    if type_ in (Type.FLOAT, Type.DOUBLE) and operand.type not in (Type.FLOAT, Type.DOUBLE):
        convert = to_float if type_ is Type.FLOAT else float
        return lambda values: convert(run(values))
    return run
