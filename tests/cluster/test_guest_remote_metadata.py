"""What `tests.adapters.remote.test_metadata` says, with guests."""

from tests.adapters.remote.test_metadata import *  # noqa: F403
from tests.cluster.weaving import bad_fabric  # noqa: F401
