"""How figures are printed: one row for each, ours beside theirs with the ratio of the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def row(name: str, ours: float, theirs: float, form: str) -> tuple[str, ...]:
    """A figure of both servers; `form` is how the two are formatted."""
    return name, f"{ours:{form}}", f"{theirs:{form}}", f"{ours / theirs:.2f}" if theirs else "-"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Names to the left, figures to the right; `columns` has no title for the names."""
    cells = [("", *columns), *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(title)
    for name, *figures in cells:
        right = "  ".join(f"{figure:>{width}}" for figure, width in zip(figures, widths[1:], strict=True))
        print(f"  {name:{widths[0]}}  {right}".rstrip())


def print_failures(server: str, failures: Counter[str]) -> None:
    """Reasons with their numbers, the most frequent first; nothing when there are none."""
    for reason, count in failures.most_common(10):
        print(f"  FAILED at {server}: {count:,} × {reason}")
