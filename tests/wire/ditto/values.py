"""Strategies that several test modules share: JSON values, keys and texts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

# Everything UTF-8 can carry, with what means something made frequent.
TEXT = st.text(
    st.one_of(st.sampled_from("~/01=:.-_,()\"'\\* \n"), st.characters(exclude_categories=["Cs"])), max_size=8
)
KEYS = TEXT.filter(bool)
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
