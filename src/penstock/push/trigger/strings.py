"""Strings as Java has them: sequences of 16-bit units, so that an emoji has the length 2.

A string of the evaluation is a `str` in which such a character is its two surrogates. Comparing, cutting and searching
are then Python's own.
"""

from __future__ import annotations

from penstock.push.trigger.failure import NoResult
from penstock.push.trigger.numbers import BLANKS

# Characters of any string of an evaluation, a field's value or a concatenation: with it, what one costs has a limit.
MAX_LENGTH = 10_000


def of_value(value: str | None) -> str | None:
    """A field's value as a string of the evaluation."""
    if value is None:
        return None
    if len(value) > MAX_LENGTH:
        raise NoResult(f"a field has {len(value)} characters; triggers read {MAX_LENGTH} at most")
    return value if value.isascii() else in_units(value)


def in_units(text: str) -> str:
    if max(text, default="") <= "\uffff":
        return text
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(map(chr, units))


def in_characters(text: str) -> str:
    """The other way round: pairs of surrogates become one character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def concatenate(first: str, second: str) -> str:
    if len(first) + len(second) > MAX_LENGTH:
        raise NoResult(f"a concatenation has more than {MAX_LENGTH} characters")
    return first + second


def trim(text: str) -> str:
    return text.strip(BLANKS)


def upper(text: str) -> str:
    return text.upper() if text.isascii() else _bounded(in_units(in_characters(text).upper()))


def lower(text: str) -> str:
    return text.lower() if text.isascii() else _bounded(in_units(in_characters(text).lower()))


def _bounded(text: str) -> str:
    """Some letters become three; without a limit, turning them again and again would be worth it."""
    if len(text) > MAX_LENGTH:
        raise NoResult(f"a string has more than {MAX_LENGTH} characters")
    return text


def equal_ignoring_case(text: str, other: str | None) -> bool:
    """Unit by unit, as Java does: letters that become several in upper case are only equal to themselves."""
    if other is None or len(text) != len(other):
        return False
    if text.isascii() and other.isascii():
        return text.lower() == other.lower()
    return all(one == two or _folded(one) == _folded(two) for one, two in zip(text, other, strict=True))


def _folded(unit: str) -> str:
    upper = unit.upper()
    # One letter, the Turkish İ, becomes two, of which the first is the one that counts.
    return (upper if len(upper) == 1 else unit).lower()[0]


def char_at(text: str, index: int) -> int:
    if not 0 <= index < len(text):
        raise NoResult(f"StringIndexOutOfBoundsException: index {index}, length {len(text)}")
    return ord(text[index])


def substring(text: str, begin: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= begin <= stop <= len(text):
        raise NoResult(f"StringIndexOutOfBoundsException: begin {begin}, end {stop}, length {len(text)}")
    return text[begin:stop]


def starts_with(text: str, prefix: str, offset: int = 0) -> bool:
    return 0 <= offset <= len(text) and text.startswith(prefix, offset)


def index_of(text: str, part: str, begin: int = 0) -> int:
    # Python looks for nothing behind the end, Java finds the empty string there.
    return text.find(part, max(0, min(begin, len(text))))


def index_of_char(text: str, code: int, begin: int = 0) -> int:
    """`code` may be that of a whole character; one that does not exist is nowhere."""
    if not 0 <= code <= 0x10FFFF:
        return -1
    return text.find(in_units(chr(code)), max(0, begin))


def compare(text: str, other: str) -> int:
    """The difference of the first units that differ, or of the lengths."""
    if text == other:
        return 0
    for one, two in zip(text, other, strict=False):
        if one != two:
            return ord(one) - ord(two)
    return len(text) - len(other)
