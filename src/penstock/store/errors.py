"""What can go wrong in the store, apart from a database that is not there. Texts name the thing and what is allowed.

Which answer a request gets for one is decided by the caller.
"""

from __future__ import annotations


class StoreError(Exception):
    """All of these."""


class AlreadyExists(StoreError):
    """Something of this name already exists."""


class NoSuchRecord(StoreError):
    """Nothing of this name exists."""


class NoSuchAccount(NoSuchRecord):
    """The account that was named does not exist."""


class BadName(StoreError):
    """An invalid name."""


class WrongSchema(StoreError):
    """The database was written by a newer version, and is left alone."""


class Vanished(StoreError):
    """The database's file was there once, and is not any more."""


class DamagedStore(StoreError):
    """The database's file is damaged; nothing of it was changed."""


class CannotOpen(StoreError):
    """The database is unreachable, of another version, none at all, or of a kind without a driver."""


class Closed(StoreError):
    """The database is closed."""


class NotOwner(StoreError):
    """Devices that this node does not serve now, so nothing was written."""

    def __init__(self, text: str, devices: frozenset[str] = frozenset()) -> None:
        super().__init__(text)
        self.devices = devices


class Deposed(NotOwner):
    """Of none any more: other nodes may have taken them. The node must join and load again."""


class Ousted(StoreError):
    """This hub is not the active one of its cluster, so nothing was written."""
