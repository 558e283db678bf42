"""Arrow arrays from lists, for the little that the journal needs.

`pa.array` would do the same, but imports pandas with its first list, if that is installed, which is slow and takes much
memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

# The letters of Python's arrays for numbers of each type.
_LETTERS = {"int32": "i", "int64": "q", "uint64": "Q", "timestamp[us, tz=UTC]": "q"}


def text(values: Sequence[str | None]) -> Any:
    """An array of text; None becomes null. Raises TypeError, and UnicodeEncodeError for what UTF-8 cannot encode."""
    count = len(values)
    if count and values[0] is None and all(value is None for value in values):
        return pa.nulls(count, pa.utf8())
    try:
        joined = "".join(values)  # type: ignore[arg-type]  # with None among them it is refused
    except TypeError:
        joined = None
        for value in values:
            if not isinstance(value, str | None):
                # The builder would take bytes as they are.
                raise TypeError(f"{type(value).__name__} is not text") from None
    if joined is not None and joined.isascii():
        ends = array("i", accumulate(map(len, values), initial=0))  # type: ignore[arg-type]
        return pa.Array.from_buffers(pa.utf8(), count, [None, pa.py_buffer(ends), pa.py_buffer(joined.encode())])
    builder = pa.lib.StringBuilder()
    builder.append_values(values)
    return builder.finish()


def numbers(values: Iterable[int], kind: Any) -> Any:
    """An array of whole numbers, none of them null. Raises TypeError and OverflowError."""
    given = array(_LETTERS[str(kind)], values)
    return pa.Array.from_buffers(kind, len(given), [None, pa.py_buffer(given)])
