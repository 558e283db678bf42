"""Names of entities in the journal: `SET/ADAPTER/ITEM` for an item, `SET/ADAPTER#QUERY` for the batches of a query.

Not here: what is recorded of them (`recorder`). Read next: docs/journal.md, "What is recorded".
"""

from __future__ import annotations

from urllib.parse import unquote


def entity_of(adapter_set: str, adapter: str, item: str) -> str:
    """The entity of an item; its own name stands as it is, whatever is in it."""
    return f"{_quoted(adapter_set)}/{_quoted(adapter)}/{item}"


def parts_of(entity: str) -> tuple[str, str, str] | None:
    """Adapter set, adapter and item; None for an entity that is not an item."""
    parts = entity.split("/", 2)
    if len(parts) < 3:
        return None
    return unquote(parts[0]), unquote(parts[1]), parts[2]


def batch_entity(adapter_set: str, adapter: str, query: str) -> str:
    """The entity of a query's batches. It has one slash only: it is never taken for an item."""
    # The first `#` ends the adapter, so that no two queries share an entity.
    return f"{_quoted(adapter_set)}/{_quoted(adapter).replace('#', '%23')}#{_quoted(query)}"


def _quoted(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")
