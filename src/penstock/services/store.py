"""The databases of a server before anybody opens them: whether they are there, and could be opened.

Those who need one open it for themselves, with `penstock.store.opening`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.config import Config
from penstock.services.errors import StartError
from penstock.services.service import Service
from penstock.store.address import named_stores
from penstock.store.errors import StoreError


class StorePresenceService(Service):
    """Opened before the journal: whether there is a journal without a store is seen only before one is made."""

    name = "store"

    def __init__(self, config: Config, data_dir: Path | None) -> None:
        self._config = config
        self._data_dir = data_dir

    async def check(self) -> list[str]:
        if self._data_dir is not None:
            for key, named in named_stores(self._config).items():
                from penstock.store.opening import check_store  # takes its time to load

                with _as_start_error(key):
                    check_store(named, self._data_dir)
        return []

    async def open(self) -> None:
        if self._data_dir is not None:
            # Several may name the same one, which is told of once.
            keys = {named: key for key, named in named_stores(self._config).items()}
            for named, key in keys.items():
                from penstock.store.opening import check_store_presence  # takes its time to load

                with _as_start_error(key):
                    check_store_presence(named, self._data_dir)


@contextmanager
def _as_start_error(key: str) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise StartError(f"{key}: {error}") from error
