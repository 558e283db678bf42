"""A ready-made data adapter: a CSV, Parquet or JSON-lines file published row by row, as recorded or at any other speed.

`rows` reads, `pace` says when a row is due, `adapter` publishes. How to use it: docs/adapters.md.
"""

from penstock.adapters.replay.adapter import ReplayAdapter

__all__ = ["ReplayAdapter"]
