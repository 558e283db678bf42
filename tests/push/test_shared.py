"""Equal values kept once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.push.shared import Shared


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"))))
def test_a_value_stays_as_long_as_somebody_has_it(steps: list[tuple[bool, str]]) -> None:
    shared: Shared[tuple[str, int]] = Shared()
    users: list[tuple[str, int]] = []
    for taken, name in steps:
        value = (name, 1)
        if taken:
            common = shared.take(value)
            assert common == value
            assert all(common is other for other in users if other == value)
            users.append(common)
        elif value in users:
            users.remove(value)
            shared.release(value)
        assert len(shared) == len(set(users))
