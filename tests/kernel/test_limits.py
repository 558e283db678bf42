from __future__ import annotations

import pytest

from penstock.kernel.limits import clamp


@pytest.mark.parametrize(("wish", "granted"), [(None, 5), (0, 1), (1, 1), (7, 7), (9, 9), (100, 9)])
def test_a_wish_is_moved_into_the_bounds_and_its_absence_takes_the_default(wish: int | None, granted: int) -> None:
    assert clamp(wish, 5, 1, 9) == granted
