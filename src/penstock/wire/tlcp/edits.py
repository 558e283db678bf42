"""What two sequences have in common: the runs of equal elements on a shortest edit path (Myers' greedy algorithm).

The search is bounded, so that no pair of sequences can stall the server. `textdiff` uses it on characters, `jsondiff`
on the elements of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

# Edits (insertions plus deletions) searched for. The work grows with the square of it, and the event loop waits for
# it. Beyond it there is no answer, and the caller replaces the whole.
MAX_EDITS = 250

# Equal runs are first compared one by one, then in slices that double: most runs are short, a few are very long.
FIRST_SLICE = 8


def common_prefix(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the common beginning."""
    return _run(one, 0, other, 0)


def common_suffix(one: Sequence[object], other: Sequence[object], limit: int) -> int:
    """Length of the common end, at most `limit`, by halving: comparing slices is fast, comparing elements is not."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def find_matches(base: Sequence[object], text: Sequence[object]) -> list[tuple[int, int, int]] | None:
    """The runs in order, as (start in base, start in text, length); None beyond the bound."""
    base_length, text_length = len(base), len(text)
    if abs(base_length - text_length) > MAX_EDITS:
        return None
    most = min(MAX_EDITS, base_length + text_length)
    # furthest[k]: the furthest position in the base reached on diagonal k (base position minus text position).
    # Negative diagonals are at the end of the list, as Python counts.
    furthest = [-1] * (2 * most + 3)
    furthest[1] = 0
    trail: list[list[int]] = []
    for edits in range(most + 1):
        # Of the step before, the diagonals -edits .. edits: all that the backtracking needs.
        trail.append(furthest[-edits - 1 :] + furthest[: edits + 2])
        for diagonal in range(-edits, edits + 1, 2):
            if _inserts(furthest[diagonal - 1], furthest[diagonal + 1], diagonal, edits):
                x = furthest[diagonal + 1]
            else:
                x = furthest[diagonal - 1] + 1
            y = x - diagonal
            if x < base_length and y < text_length and base[x] == text[y]:
                length = _run(base, x, text, y)
                x += length
                y += length
            furthest[diagonal] = x
            if x >= base_length and y >= text_length:
                return _backtrack(trail, base_length, text_length)
    return None


def _inserts(left: int, right: int, diagonal: int, edits: int) -> bool:
    """Whether the best way to a diagonal is an insertion, from the one to the right of it."""
    return diagonal == -edits or (diagonal != edits and left < right)


def _run(one: Sequence[object], x: int, other: Sequence[object], y: int) -> int:
    """Length of the equal run that starts at these positions."""
    start = x
    limit = x + min(len(one) - x, len(other) - y)
    size = FIRST_SLICE
    while x < limit:
        size = min(size, limit - x)
        if one[x : x + size] == other[y : y + size]:
            x += size
            y += size
            size *= 2
        elif size == 1:
            break
        else:
            # The end is within this slice: from here on the slices only shrink.
            limit = x + size - 1
            size //= 2
    return x - start


def _backtrack(trail: list[list[int]], x: int, y: int) -> list[tuple[int, int, int]]:
    matches: list[tuple[int, int, int]] = []
    for edits in range(len(trail) - 1, 0, -1):
        furthest = trail[edits]
        diagonal = x - y
        left, right = furthest[diagonal + edits], furthest[diagonal + edits + 2]
        # The step itself, then the run of equal elements that follows it.
        if _inserts(left, right, diagonal, edits):
            start_x, start_y = right, right - diagonal - 1
            after = right
        else:
            start_x, start_y = left, left - diagonal + 1
            after = left + 1
        if x > after:
            matches.append((after, after - diagonal, x - after))
        x, y = start_x, start_y
    if x:
        matches.append((0, 0, x))
    matches.reverse()
    return matches
