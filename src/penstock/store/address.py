"""Which database is meant: the one that the configuration names, or the file in the data directory.

Read next: `[tlex]` in docs/configuration.md.
"""

from __future__ import annotations

from pathlib import Path

from penstock.config import Config

FILE = "store.db"


def is_own(config: Config) -> bool:
    """Whether it is the file in the data directory."""
    return not config.tlex.store


def store_url(config: Config, data_dir: Path | None) -> str | None:
    """None if there is no place for one."""
    if config.tlex.store:
        return config.tlex.store
    return None if data_dir is None else f"sqlite:///{data_dir.resolve() / FILE}"
