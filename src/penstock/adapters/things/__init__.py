"""Things as items: adapter set DITTO with data adapter THINGS, through which TLCP clients watch twins live.

An item is a thing, by its ID, in MERGE mode; fields are JSON pointers into it. Read next: docs/ditto.md, "Things are
items".
"""

from penstock.adapters.things.adapter import ThingsAdapter
from penstock.adapters.things.metadata import ThingsMetadata, things_set

__all__ = ["ThingsAdapter", "ThingsMetadata", "things_set"]
