"""What `tests.services.push.test_operations` says, with guests."""

from tests.cluster.weaving import bad_fabric  # noqa: F401
from tests.services.push.test_operations import *  # noqa: F403
