"""The kernel's hot loops: the native versions, if the build that runs has them, else those in Python, in `rows`."""

from __future__ import annotations

from penstock.kernel import rows

try:
    import penstock_native as native  # type: ignore[import-not-found]
except ImportError:
    checked_row = rows.checked_row
    clean_event = rows.clean_event
    merge_row = rows.merge_row
    pick = rows.pick
else:
    checked_row = native.checked_row
    clean_event = native.clean_event
    merge_row = native.merge_row
    pick = native.pick

__all__ = ["checked_row", "clean_event", "merge_row", "pick"]
