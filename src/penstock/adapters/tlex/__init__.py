"""The ready-made data adapter `tlex`: the TLEX hub as items, so that a page shows it live.

The hub itself (`exchange`) tells the `Board`, and knows nothing of items. Items are made in `adapter`. Read next:
docs/tlex.md, "Watching the hub".
"""

from penstock.adapters.tlex.adapter import TlexAdapter
from penstock.adapters.tlex.board import Board

__all__ = ["Board", "TlexAdapter"]
