"""Ready-made metadata: users from a file, tokens of an identity provider, and rules about who may see which items.

`AccessMetadata` puts them together; an adapter set names it with `adapter = "access"`. Groups and schemas are lists of
names, as in the base class. Read next: docs/access.md.
"""

from typing import TYPE_CHECKING, Any

from penstock.adapters.access.settings import AccessError

if TYPE_CHECKING:
    from penstock.adapters.access.metadata import AccessMetadata

__all__ = ["AccessError", "AccessMetadata"]


def __getattr__(name: str) -> Any:
    """The adapter, imported on demand: the command line imports this package and must not wait for asyncio."""
    if name == "AccessMetadata":
        from penstock.adapters.access.metadata import AccessMetadata

        return AccessMetadata
    raise AttributeError(f"module {__name__} has no attribute {name}")
