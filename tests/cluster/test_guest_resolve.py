"""What `tests.adapters.remote.test_resolve` says, with guests."""

from tests.adapters.remote.test_resolve import *  # noqa: F403
from tests.cluster.weaving import bad_fabric  # noqa: F401
