"""The file descriptors of the process, and how the ports share them, so that none can use up those of another.

Every connection takes one. Read next: `api.max_connections` and `stream.max_connections` in docs/configuration.md.
"""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass

from penstock.config import Config

# The share of each as a divisor of all descriptors: the API port, connections to the TLEX ports that have presented no
# token, and files. The streaming port has the rest.
API_PART = 4
TLEX_PART = 8
FILES_PART = 8

# Assumed where the system sets no limit.
PLENTY = 1_048_576


def raise_limit() -> None:
    """Raise the limit of the process as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS reports "unlimited" but has a limit.
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
        strangers = _strangers(config, descriptors)
        left = max(1, descriptors - api - strangers - descriptors // FILES_PART)
        return cls(config.stream.max_connections or left, api, strangers)

    @classmethod
    def of_edge(cls, config: Config, descriptors: int) -> Shares:
        """Of a process that has no API port."""
        strangers = _strangers(config, descriptors)
        left = max(1, descriptors - strangers - descriptors // FILES_PART)
        return cls(config.stream.max_connections or left, 0, strangers)


def _strangers(config: Config, descriptors: int) -> int:
    return min(config.tlex.max_strangers, max(1, descriptors // TLEX_PART)) if config.tlex.enabled else 0
