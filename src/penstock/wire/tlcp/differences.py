"""Updates whose values may be sent as differences: which format for which field, if any.

The formats are in `jsondiff` (^P) and `textdiff` (^T). One is used only when it fits and is shorter than the value.
Specification: chapter 3, "Real-Time Update".
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.wire.tlcp.jsondiff import encode_patch
from penstock.wire.tlcp.textdiff import encode_difference, qualifies
from penstock.wire.tlcp.values import encode_value, escape, join_tokens

JSON_PATCH = "P"
TEXT_DIFFERENCE = "T"
FORMATS = JSON_PATCH + TEXT_DIFFERENCE


class DifferenceEncoder:
    """Encodes for clients that accept some formats; values shorter than `min_length` are not worth the search."""

    def __init__(self, accepted: str, min_length: int) -> None:
        self._accepted = accepted
        self._min_length = min_length

    def encode(
        self, values: Sequence[str | None], previous: Sequence[str | None], orders: Sequence[str], patched: int
    ) -> tuple[str, int]:
        """The value list, and which fields the client then has as patched JSON (a bit for each field).

        A text difference cannot be applied to a value that the client has rebuilt from a patch: its text may differ.
        """
        tokens: list[str | None] = []
        for index, (value, before) in enumerate(zip(values, previous, strict=True)):
            if value == before:
                tokens.append(None)
                continue
            bit = 1 << index
            token, is_patch = self._token(value, before, orders[index], bool(patched & bit))
            patched = patched | bit if is_patch else patched & ~bit
            tokens.append(token)
        return join_tokens(tokens), patched

    def _token(self, value: str | None, before: str | None, order: str, patched: bool) -> tuple[str, bool]:
        full = encode_value(value)
        if order and value is not None and before and len(value) >= self._min_length:
            for name in order:
                difference = self._difference(name, before, value, patched)
                if difference is not None and len(difference) < len(full):
                    return difference, name == JSON_PATCH
        return full, False

    def _difference(self, name: str, before: str, value: str, patched: bool) -> str | None:
        if name not in self._accepted:
            return None
        if name == JSON_PATCH:
            patch = encode_patch(before, value)
            return None if patch is None else f"^P{escape(patch)}"
        if name == TEXT_DIFFERENCE and not patched and qualifies(before) and qualifies(value):
            return f"^T{escape(encode_difference(before, value))}"
        return None
