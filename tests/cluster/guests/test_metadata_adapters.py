"""What `tests.contract.test_metadata_adapters` says, with guests."""

from tests.contract.test_metadata_adapters import *  # noqa: F403
