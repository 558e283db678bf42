"""A ready-made data adapter: anything that can make an HTTP request, such as a shell script, can publish to it.

`event_routes` and `batch_routes` are the way in over HTTP, `adapter` keeps what was published last. How to use it:
docs/adapters.md.
"""

from penstock.adapters.ingest.adapter import IngestAdapter
from penstock.adapters.ingest.event_routes import add_ingest_routes

__all__ = ["IngestAdapter", "add_ingest_routes"]
