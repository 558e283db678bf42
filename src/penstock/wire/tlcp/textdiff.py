"""TLCP-diff, the `^T` format: a new text as copies, additions and deletions over the old one.

The encoder finds a shortest edit within a bound on its work (`edits`), so that no pair of texts can stall the server.
Specification: appendix D.
"""

from __future__ import annotations

from penstock.wire.tlcp.edits import common_prefix, common_suffix, find_matches
from penstock.wire.tlcp.errors import malformed

# A copy between two edits costs three numbers, and pays only if it is longer than they are.
SHORTEST_COPY = 4

_RADIX = 26
_LOWER = ord("a")
_UPPER = ord("A")


def encode_number(number: int) -> str:
    """Radix-26 letters: capitals, except for the last."""
    text = chr(_LOWER + number % _RADIX)
    number //= _RADIX
    while number:
        text = chr(_UPPER + number % _RADIX) + text
        number //= _RADIX
    return text


def qualifies(text: str) -> bool:
    """Whether every character is one unit of UTF-16, as the format demands."""
    return text.isascii() or all(ord(character) < 0xD800 or 0xDFFF < ord(character) < 0x10000 for character in text)


def encode_difference(base: str, text: str) -> str:
    """The difference that turns `base` into `text`; both must qualify."""
    prefix = common_prefix(base, text)
    suffix = common_suffix(base, text, min(len(base), len(text)) - prefix)
    # Each edit: how much to copy before it, what to add, how much to delete.
    edits = _edits(base[prefix : len(base) - suffix], text[prefix : len(text) - suffix])
    parts: list[str] = []
    position = prefix
    for copied, added, deleted in edits:
        parts += (encode_number(position + copied), encode_number(len(added)), added, encode_number(deleted))
        position = 0
    if suffix or not parts:
        parts.append(encode_number(position + suffix))
    else:
        parts.pop()  # What is not copied is dropped anyway: a final deletion is redundant,
        if not parts[-1]:
            del parts[-2:]  # and so is an empty addition before it.
    return "".join(parts)


def decode_difference(base: str, difference: str) -> str:
    """Apply a difference; raises error 67 if it cannot be applied to the base."""
    longest = max(len(base), len(difference))
    result: list[str] = []
    position = 0
    index = 0
    step = 0
    while index < len(difference):
        number = 0
        while index < len(difference) and "A" <= difference[index] <= "Z":
            number = number * _RADIX + ord(difference[index]) - _UPPER
            index += 1
            if number > longest:
                raise malformed(f"TLCP-diff: beyond both texts at position {index}")
        if index == len(difference) or not "a" <= difference[index] <= "z":
            raise malformed(f"TLCP-diff: no number at position {index}")
        number = number * _RADIX + ord(difference[index]) - _LOWER
        index += 1
        if step == 1:
            if index + number > len(difference):
                raise malformed(f"TLCP-diff: {number} characters to add, {len(difference) - index} are there")
            result.append(difference[index : index + number])
            index += number
        else:
            if position + number > len(base):
                raise malformed(f"TLCP-diff: beyond the end of the base at position {index}")
            if step == 0:
                result.append(base[position : position + number])
            position += number
        step = (step + 1) % 3
    return "".join(result)


def _edits(base: str, text: str) -> list[tuple[int, str, int]]:
    if not base and not text:
        return []
    matches = find_matches(base, text) if base and text else None
    if matches is None:
        return [(0, text, len(base))]
    edits: list[tuple[int, str, int]] = []
    base_done = text_done = 0
    # `copied` is what precedes the edit that is being collected, which reaches from the *_from to the *_done marks.
    copied = 0
    base_from = text_from = 0
    for base_start, text_start, length in [*matches, (len(base), len(text), 0)]:
        if base_start > base_done or text_start > text_done:
            base_done, text_done = base_start, text_start
        if length >= SHORTEST_COPY or length == 0:
            if base_done > base_from or text_done > text_from:
                edits.append((copied, text[text_from:text_done], base_done - base_from))
                copied = 0
            copied += length
            base_from, text_from = base_start + length, text_start + length
        base_done, text_done = base_start + length, text_start + length
    return edits
