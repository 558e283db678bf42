"""Opening the database that the configuration names, or the one in the data directory, with an answer for people.

Blocks: not for an event loop. What is opened is in `store`; each part of the server opens it for itself, because then
one that writes much does not keep the others waiting.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from penstock.extras import lack_of
from penstock.store.address import is_own, store_url
from penstock.store.checking import check_database
from penstock.store.errors import CannotOpen, Ousted, StoreError
from penstock.store.presence import check_presence, note_presence
from penstock.store.store import Store, StoreFence

# Errors of a database that is unreachable, of another version, not a database, or of a kind without a driver.
_FAILURES = (StoreError, SQLAlchemyError, ImportError, OSError)

# Errors of a database that was opened and does not answer, or not to this hub any more: nothing can be done for now.
UNANSWERED = (SQLAlchemyError, Ousted)


def open_store(named: str, data_dir: Path | None, fence: StoreFence | None = None) -> Store:
    """`named` is a value of the configuration. Raises CannotOpen. Whether it has vanished is looked at earlier."""
    url = _url(named, data_dir)
    try:
        store = Store.open(url, fence)
        if data_dir is not None and is_own(named):
            note_presence(data_dir)
    except _FAILURES as error:
        raise _unopened(error) from error
    return store


def check_store(named: str, data_dir: Path) -> None:
    """Raise what `check_store_presence` and `open_store` would; it is only read."""
    check_store_presence(named, data_dir)
    try:
        check_database(_url(named, data_dir), is_made=is_own(named))
    except _FAILURES as error:
        raise _unopened(error) from error


def check_store_presence(named: str, data_dir: Path) -> None:
    """Raise CannotOpen if the store of the data directory was there before, and is not any more."""
    try:
        if is_own(named):
            check_presence(data_dir)
    except _FAILURES as error:
        raise _unopened(error) from error


def reason(error: Exception) -> str:
    """Of a failure of the database: on one line, without what was asked for."""
    if isinstance(error, ModuleNotFoundError) and (lack := lack_of(error.name or "")):
        return lack
    return " ".join(str(getattr(error, "orig", None) or error).split()) or type(error).__name__


def _url(named: str, data_dir: Path | None) -> str:
    url = store_url(named, data_dir)
    if url is None:
        raise CannotOpen("expected a database URL, because there is no data directory")
    return url


def _unopened(error: Exception) -> CannotOpen:
    return CannotOpen(f"the database cannot be opened: {reason(error)}")
