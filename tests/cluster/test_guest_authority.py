"""What `tests.adapters.test_authority` says, with guests."""

from tests.adapters.test_authority import *  # noqa: F403
from tests.cluster.weaving import fabric  # noqa: F401
