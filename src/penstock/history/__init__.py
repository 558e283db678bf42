"""History: one entity's events in order, each once, from the lake and the journal together, without a JVM.

`layout` says where the lake keeps what, `reader` reads. Writing the lake is the pipeline's business.
"""

from __future__ import annotations

from pathlib import Path


def lake_sequence(path: Path) -> int:
    """Up to which sequence the lake is complete; 0 when there is none. Reads the Delta log: call it in a thread."""
    # Imported here: a server without a lake never pays for it.
    from penstock.history.layout import SEQUENCE, has_lake

    if not has_lake(path):
        return 0
    from deltalake import DeltaTable

    return DeltaTable(str(path)).transaction_version(SEQUENCE) or 0
