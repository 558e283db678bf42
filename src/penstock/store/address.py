"""Which databases are meant: those that the configuration names, or the file in the data directory.

Read next: docs/store.md.
"""

from __future__ import annotations

from pathlib import Path

from penstock.config import Config

FILE = "store.db"


def named_stores(config: Config) -> dict[str, str]:
    """What the configuration says for each part of the server that needs a database and is enabled, by key."""
    named = {"tlex.store": config.tlex.store} if config.tlex.enabled else {}
    return named | ({"push.store": config.push.store} if config.push.enabled else {})


def is_own(named: str) -> bool:
    """Whether it is the file in the data directory."""
    return not named


def store_url(named: str, data_dir: Path | None) -> str | None:
    """None if there is no place for one."""
    if named:
        return named
    return None if data_dir is None else f"sqlite:///{data_dir.resolve() / FILE}"
