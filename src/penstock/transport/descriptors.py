"""The file descriptors of the process, and how the ports share them: none may take so many that another has none.

Every connection is one. Read next: `api.max_connections` and `stream.max_connections` in docs/configuration.md.
"""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass

from penstock.config import Config

# Of all descriptors, the part that each has, as a divisor: the API port, connections to the TLEX ports that have shown
# no token, and files. The streaming port has the rest.
API_PART = 4
TLEX_PART = 8
FILES_PART = 8

# Where the system sets no limit, as if it were this.
PLENTY = 1_048_576


def raise_limit() -> None:
    """Let the process have as many as the system grants it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS says "unlimited" and does not mean it.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """How many it has."""
    found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return PLENTY if found == resource.RLIM_INFINITY else min(found, PLENTY)


@dataclass(frozen=True, slots=True)
class Shares:
    """Connections that each port may have."""

    stream: int
    api: int
    tlex_strangers: int

    @classmethod
    def of(cls, config: Config, descriptors: int) -> Shares:
        api = config.api.max_connections or max(1, descriptors // API_PART)
        strangers = min(config.tlex.max_strangers, max(1, descriptors // TLEX_PART)) if config.tlex.enabled else 0
        left = max(1, descriptors - api - strangers - descriptors // FILES_PART)
        return cls(config.stream.max_connections or left, api, strangers)
