"""What `tests.adapters.test_customizing` says, with guests."""

from tests.adapters.test_customizing import *  # noqa: F403
from tests.cluster.weaving import bad_fabric  # noqa: F401
