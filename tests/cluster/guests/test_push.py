"""What `tests.services.push.test_operations` says, with guests."""

from tests.services.push.test_operations import *  # noqa: F403
