"""Numbers as Java has them: 32 and 64 bits that overflow, division, remainders, parsing, rounding, and their texts.

Values are Python's int and float; which type of Java they have is known to the caller.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal

from penstock.push.trigger.failure import NoResult

INT_MAX = 2**31 - 1
INT_MIN = -(2**31)
LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)

# Characters that `String.trim` and `Double.parseDouble` leave out at both ends.
BLANKS = "".join(map(chr, range(0x21)))
# Digits that may be significant of a whole number; more with zeros in front of them are fine.
_WHOLE_DIGITS = 19
# Characters of an input that the text of a failure quotes.
_QUOTED = 40

# None of them goes back over more than it has to: their time is linear in the text.
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf}


def to_int(number: int) -> int:
    """The low 32 bits."""
    return number if INT_MIN <= number <= INT_MAX else ((number - INT_MIN) & 0xFFFF_FFFF) + INT_MIN


def to_long(number: int) -> int:
    """The low 64 bits."""
    return number if LONG_MIN <= number <= LONG_MAX else ((number - LONG_MIN) & 0xFFFF_FFFF_FFFF_FFFF) + LONG_MIN


def to_float(number: float) -> float:
    """The nearest number of 32 bits. Of a sum, product or quotient of such, this is Java's result too."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def divide_whole(dividend: int, divisor: int) -> int:
    """Towards zero; the caller cuts it to its bits, because the smallest number divided by -1 is too large."""
    if divisor == 0:
        raise NoResult("ArithmeticException: / by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def remainder_whole(dividend: int, divisor: int) -> int:
    """With the sign of the dividend."""
    return dividend - divisor * divide_whole(dividend, divisor)


def divide(dividend: float, divisor: float) -> float:
    if divisor:
        return dividend / divisor
    if dividend == 0 or dividend != dividend or divisor != divisor:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def remainder(dividend: float, divisor: float) -> float:
    try:
        return math.fmod(dividend, divisor)
    except ValueError:
        return math.nan


# -- reading ----------------------------------------------------------------------------------------------------------


def parse_int(text: str) -> int:
    return _whole(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int:
    return _whole(text, LONG_MIN, LONG_MAX)


def parse_double(text: str) -> float:
    trimmed = text.strip(BLANKS)
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    sign = -1.0 if trimmed.startswith("-") else 1.0
    unsigned = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if unsigned in _SPECIAL:
        return sign * _SPECIAL[unsigned]
    if _HEXADECIMAL.fullmatch(trimmed):
        significand, _, exponent = trimmed.lower().partition("p")
        try:
            return float.fromhex(f"{significand}p{exponent.rstrip('fd')}")
        except OverflowError:
            return sign * math.inf
    raise _unreadable(text)


def parse_float(text: str) -> float:
    """The number of 32 bits that is nearest to the text."""
    number = parse_double(text)
    rounded = to_float(number)
    if rounded == number or not math.isfinite(rounded):
        # Beyond the largest the two cannot disagree: what is nearest to infinity was decided by more bits than needed.
        return rounded
    # Rounded twice, first to 64 bits: wrong only if the first result is just between two numbers of 32 bits.
    other = _next_float(rounded, number > rounded)
    if number - rounded != other - number or "x" in text.lower():
        return rounded
    exact = Decimal(text.strip(BLANKS).rstrip("fFdD"))
    if exact == Decimal(number):
        return rounded
    return max(rounded, other) if exact > Decimal(number) else min(rounded, other)


def _next_float(number: float, is_up: bool) -> float:
    bits: int = struct.unpack("<i", struct.pack("<f", number))[0]
    if number == 0:
        bits = 1 if is_up else INT_MIN + 1
    else:
        bits += 1 if is_up == (number > 0) else -1
    neighbour: float = struct.unpack("<f", struct.pack("<i", bits))[0]
    return neighbour


def _whole(text: str, least: int, most: int) -> int:
    if not _WHOLE.fullmatch(text) or (not text.isascii() and max(text) > "\uffff"):
        raise _unreadable(text)
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) <= _WHOLE_DIGITS or not digits.isascii():
        number = int(text) if len(text) <= 2 * _WHOLE_DIGITS else int(digits) * (-1 if text[0] == "-" else 1)
        if least <= number <= most:
            return number
    raise _unreadable(text)


def _unreadable(text: str) -> NoResult:
    quoted = text if len(text) <= _QUOTED else text[:_QUOTED] + "…"
    return NoResult(f'NumberFormatException: For input string: "{quoted}"')


# -- functions of Math ------------------------------------------------------------------------------------------------


def floor(number: float) -> float:
    return math.copysign(float(math.floor(number)), number) if math.isfinite(number) else number


def ceil(number: float) -> float:
    return math.copysign(float(math.ceil(number)), number) if math.isfinite(number) else number


def round_to_long(number: float) -> int:
    return _round(number, LONG_MIN, LONG_MAX)


def round_to_int(number: float) -> int:
    return _round(number, INT_MIN, INT_MAX)


def _round(number: float, least: int, most: int) -> int:
    """Halves go up."""
    if number != number:
        return 0
    if math.isinf(number):
        return most if number > 0 else least
    whole = math.floor(number)
    return max(least, min(most, whole + (number - whole >= 0.5)))


def sqrt(number: float) -> float:
    return math.sqrt(number) if number >= 0 else math.nan


def power(base: float, exponent: float) -> float:
    if exponent == 0:
        return 1.0
    # Where Java and C differ: these are 1 in C.
    if exponent != exponent or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    is_odd = math.fmod(exponent, 2) in (1.0, -1.0) if math.isfinite(exponent) else False
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and is_odd else math.inf
    except ValueError:
        if base == 0:
            return math.copysign(math.inf, base) if is_odd else math.inf
        return math.nan


def least(first: float, second: float) -> float:
    """NaN if one is; -0.0 is less than 0.0."""
    if first != first or second != second:
        return math.nan
    if first == 0 == second:
        return first if math.copysign(1, first) < 0 else second
    return min(first, second)


def greatest(first: float, second: float) -> float:
    return -least(-first, -second)


# -- texts ------------------------------------------------------------------------------------------------------------


def double_text(number: float) -> str:
    """The fewest digits, but two, that tell it from its neighbours, as Java does from version 19 on."""
    shortest = repr(abs(number))
    if math.isfinite(number) and sum(digit in "123456789" for digit in shortest.partition("e")[0]) == 1:
        # Two digits may be nearer than one: 4.9E-324 is not 5E-324.
        shortest = f"{abs(number):.1e}"
    return _text(number, shortest)


def float_text(number: float) -> str:
    """The same among the numbers of 32 bits."""
    if not math.isfinite(number):
        return _text(number, "")
    digits = (f"{abs(number):.{count}e}" for count in range(1, 9))
    return _text(number, next(text for text in digits if _is_float(text, abs(number))))


def _is_float(text: str, number: float) -> bool:
    return to_float(float(text)) == number


def _text(number: float, shortest: str) -> str:
    if number != number:
        return "NaN"
    sign = "-" if math.copysign(1, number) < 0 else ""
    if math.isinf(number):
        return f"{sign}Infinity"
    if number == 0:
        return f"{sign}0.0"
    _, digit_tuple, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, digit_tuple))
    # The position of the point behind the first digit.
    scale = len(digits) + exponent - 1
    if not -3 <= scale < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{scale}"
    if scale < 0:
        return f"{sign}0.{'0' * (-scale - 1)}{digits}"
    digits = digits.ljust(scale + 1, "0")
    return f"{sign}{digits[: scale + 1]}.{digits[scale + 1 :] or '0'}"
