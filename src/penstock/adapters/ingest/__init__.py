"""A ready-made data adapter: whatever can make an HTTP request, a shell script say, publishes JSON lines or Arrow.

`door` is the way in over HTTP, `adapter` keeps what was published last. How to use it: docs/adapters.md.
"""

from penstock.adapters.ingest.adapter import IngestAdapter
from penstock.adapters.ingest.event_routes import ingest_routes

__all__ = ["IngestAdapter", "ingest_routes"]
