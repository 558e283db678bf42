"""A ready-made data adapter: anything that can make an HTTP request, such as a shell script, can publish to it.

`door` is the way in over HTTP, `adapter` keeps what was published last. How to use it: docs/adapters.md.
"""

from penstock.adapters.ingest.adapter import IngestAdapter
from penstock.adapters.ingest.event_routes import ingest_routes

__all__ = ["IngestAdapter", "ingest_routes"]
