"""What `tests.adapters.test_limits` says, with guests."""

from tests.adapters.test_limits import *  # noqa: F403
