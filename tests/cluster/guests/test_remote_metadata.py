"""What `tests.adapters.remote.test_metadata` says, with guests."""

from tests.adapters.remote.test_metadata import *  # noqa: F403
