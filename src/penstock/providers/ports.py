"""What a server needs of a provider beyond what the rules need of it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from penstock.push.ports import Provider


class ReloadableProvider(Provider, Protocol):
    def reload(self) -> None:
        """Read the credentials again. Raise ProviderError, and go on with the old ones, if they are not right.

        Blocks for as long as files are read, and may be called on any thread.
        """


@runtime_checkable
class KeyedProvider(Provider, Protocol):
    """One whose devices have to know its public key before they can be registered: Web Push."""

    @property
    def public_key(self) -> str: ...
