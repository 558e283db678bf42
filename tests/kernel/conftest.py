"""A harness for every test of the kernel."""

from __future__ import annotations

import pytest

from penstock.testing import Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()
