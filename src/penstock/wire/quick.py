"""The hot loops of the codecs: the native versions, if the build that runs has them, else those in Python."""

from __future__ import annotations

from penstock.wire import frames
from penstock.wire.tlcp import values

try:
    import penstock_native as native  # type: ignore[import-not-found]
except ImportError:
    value_list = values.value_list
    text_frame = frames.text_frame
else:
    value_list = native.value_list
    text_frame = native.text_frame

__all__ = ["text_frame", "value_list"]
