"""JSON Patch, the `^P` format: a new JSON document as the operations that turn the old one into it. RFC 6902.

Patches are made here, in time proportional to the documents, and applied by the `jsonpatch` library: by clients, and by
the encoder to check its work, because a patch that a client cannot apply is worse than a long line.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Sequence
from typing import Any

import jsonpatch
import msgspec

from penstock.wire.tlcp.edits import common_prefix, common_suffix, find_matches
from penstock.wire.tlcp.errors import malformed

# A patch takes time in proportion to the documents; longer ones are sent whole.
MAX_LENGTH = 200_000

# About how many bytes an operation takes besides its path and its value: {"op":"replace","path":"","value":},
OPERATION_LENGTH = 36

# JSON can represent half of a surrogate pair ("\ud800"), UTF-8 cannot.
_SURROGATE = re.compile(r"[\ud800-\udfff]")

# All that the library raises for a patch that cannot be applied: its own errors, those of its pointers, and what Python
# raises where the library does not check the shape of an operation.
_UNFIT = (
    msgspec.DecodeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    jsonpatch.JsonPatchException,
    jsonpatch.JsonPointerException,
)

PatchOperation = dict[str, Any]

# Bytes that the quick comparison may look at, for each byte of the documents. With a change deep inside it looks at the
# same parts again at every level; beyond this, numbering them is cheaper.
QUICK_LOOKS = 8

# Parsed documents that are kept, and the longest of them: the new one of this comparison is mostly the old one of the
# next. A parsed document takes about ten times the memory of its text.
MAX_KEPT = 64
MAX_KEPT_LENGTH = 20_000
_kept: dict[str, Any] = {}


def encode_patch(base: str, text: str) -> str | None:
    """The patch from one JSON text to another; None when either is not JSON, or too long, or cannot be patched."""
    if len(base) > MAX_LENGTH or len(text) > MAX_LENGTH:
        return None
    try:
        # The old one is changed below, so it cannot be used a second time.
        before = _kept.pop(base, None) or _parse(base)
        after = _kept.get(text) or _parse(text)
        if before is None or after is None:
            # Published clients treat the document `null` as missing.
            return None
        try:
            operations = _QuickComparison(before, after, QUICK_LOOKS * (len(base) + len(text))).operations()
        except _TooMuch:
            operations = _Comparison(before, after).operations()
        patch = json.dumps(operations, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if operations:
            # A copy of what is put in, because a later operation may change it, and it belongs to the new document.
            rebuilt = jsonpatch.apply_patch(before, json.loads(patch), in_place=True)
            if not _same(rebuilt, after) and _canonical(rebuilt) != _canonical(after):
                return None
    except _UNFIT:
        return None
    if len(text) <= MAX_KEPT_LENGTH:
        if len(_kept) >= MAX_KEPT:
            del _kept[next(iter(_kept))]
        _kept[text] = after
    return None if _SURROGATE.search(patch) else patch


def decode_patch(base: str, patch: str) -> str:
    """Apply a patch: the same document, not always the same text. Raises error 67 if it cannot be applied."""
    try:
        operations: Any = json.loads(patch)
        document = jsonpatch.apply_patch(json.loads(base), operations, in_place=True)
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    except _UNFIT as error:
        raise malformed(f"JSON Patch: {error}") from None


class _TooMuch(Exception):
    """The quick comparison would take too long."""


class _Comparison:
    """The search for the operations.

    The values of both documents are numbered first: two are the same exactly if they have the same number. In Python
    1, 1.0 and true are equal, and comparing at every level would take quadratic time.
    """

    def __init__(self, before: Any, after: Any) -> None:
        self._before = before
        self._after = after
        self._numbers: dict[object, int] = {}
        # By the identity of a value, which is stable while the documents exist: its number, and its length as text.
        self._known: dict[int, tuple[int, int]] = {}
        self._prepare()

    def _prepare(self) -> None:
        self._number(self._before)
        self._number(self._after)

    def operations(self) -> list[PatchOperation]:
        return self._compare(self._before, self._after, "")[0]

    def _equal(self, before: Any, after: Any) -> bool:
        return self._known[id(before)][0] == self._known[id(after)][0]

    def _length(self, value: Any) -> int:
        """About how long it is as text."""
        return self._known[id(value)][1]

    def _keys(self, elements: list[Any]) -> Sequence[object]:
        """One for each, and the same for those that are the same."""
        return [self._known[id(element)][0] for element in elements]

    def _number(self, value: Any) -> tuple[int, int]:
        key: object
        if type(value) is dict:
            members = [(name, self._number(member)) for name, member in value.items()]
            key = (dict, frozenset([(name, number) for name, (number, _) in members]))
            length = 2 + sum([len(name) + 4 + size for name, (_, size) in members])
        elif type(value) is list:
            elements = [self._number(element) for element in value]
            key = (list, tuple([number for number, _ in elements]))
            length = 2 + sum([1 + size for _, size in elements])
        else:
            # By its text, in which 0.0 and -0.0 differ.
            text = repr(value)
            key = (type(value), text)
            length = len(text)
        known = self._known[id(value)] = (self._numbers.setdefault(key, len(self._numbers)), length)
        return known

    def _compare(self, before: Any, after: Any, path: str) -> tuple[list[PatchOperation], int]:
        """The operations, and about how long they are."""
        if self._equal(before, after):
            return [], 0
        replaced = self._length(after) + len(path) + OPERATION_LENGTH
        if type(before) is dict and type(after) is dict:
            operations, size = self._compare_objects(before, after, path)
        elif type(before) is list and type(after) is list:
            operations, size = self._compare_arrays(before, after, path)
        else:
            operations, size = [], replaced
        if size < replaced:
            return operations, size
        return [{"op": "replace", "path": path, "value": after}], replaced

    def _compare_objects(
        self, before: dict[str, Any], after: dict[str, Any], path: str
    ) -> tuple[list[PatchOperation], int]:
        operations: list[PatchOperation] = []
        size = 0
        for name in before:
            if name not in after:
                size += self._remove(operations, _join(path, name))
        for name, member in after.items():
            inner = _join(path, name)
            if name in before:
                found, length = self._compare(before[name], member, inner)
                operations += found
                size += length
            else:
                size += self._add(operations, inner, member)
        return operations, size

    def _compare_arrays(self, before: list[Any], after: list[Any], path: str) -> tuple[list[PatchOperation], int]:
        operations: list[PatchOperation] = []
        size = 0
        # From left to right, so that a position in the new array is the position at that moment. Between two matches
        # elements are compared in pairs; what is left over has been removed or added.
        old_from = new_from = 0
        for old_start, new_start, length in self._match(before, after):
            pairs = min(old_start - old_from, new_start - new_from)
            for index in range(pairs):
                inner = f"{path}/{new_from + index}"
                found, found_size = self._compare(before[old_from + index], after[new_from + index], inner)
                operations += found
                size += found_size
            for _ in range(old_from + pairs, old_start):
                size += self._remove(operations, f"{path}/{new_from + pairs}")
            for index in range(new_from + pairs, new_start):
                size += self._add(operations, f"{path}/{index}", after[index])
            old_from, new_from = old_start + length, new_start + length
        return operations, size

    def _match(self, before: list[Any], after: list[Any]) -> list[tuple[int, int, int]]:
        """Runs of equal elements, up to an empty one at the end of both arrays."""
        old, new = self._keys(before), self._keys(after)
        prefix = common_prefix(old, new)
        suffix = common_suffix(old, new, min(len(old), len(new)) - prefix)
        old, new = old[prefix : len(old) - suffix], new[prefix : len(new) - suffix]
        between = (find_matches(old, new) if old and new else None) or []
        return [
            (0, 0, prefix),
            *[(old_start + prefix, new_start + prefix, length) for old_start, new_start, length in between],
            (prefix + len(old), prefix + len(new), suffix),
        ]

    def _add(self, operations: list[PatchOperation], path: str, value: Any) -> int:
        operations.append({"op": "add", "path": path, "value": value})
        return OPERATION_LENGTH + len(path) + self._length(value)

    def _remove(self, operations: list[PatchOperation], path: str) -> int:
        operations.append({"op": "remove", "path": path})
        return OPERATION_LENGTH + len(path)


class _QuickComparison(_Comparison):
    """The same without numbers, which take most of the time: what has not changed is found by Python's own comparison,
    and told apart from what is only equal by its bytes.
    """

    def __init__(self, before: Any, after: Any, looks: int) -> None:
        self._looks = looks
        super().__init__(before, after)

    def _prepare(self) -> None:
        """Nothing has to be known in advance."""

    def _bytes(self, value: Any) -> bytes:
        found = marshal.dumps(value, _PLAIN)
        self._looks -= len(found)
        if self._looks < 0:
            raise _TooMuch
        return found

    def _equal(self, before: Any, after: Any) -> bool:
        # Two objects whose names have another order count as different; their members are then compared one by one.
        return bool(before == after) and self._bytes(before) == self._bytes(after)

    def _length(self, value: Any) -> int:
        return len(self._bytes(value))

    def _keys(self, elements: list[Any]) -> Sequence[object]:
        return [self._bytes(element) for element in elements]


# The version of the format in which equal values have equal bytes, wherever else they occur.
_PLAIN = 2


def _same(one: Any, other: Any) -> bool:
    """Whether two documents are the same, with their names in the same order."""
    return bool(one == other) and marshal.dumps(one, _PLAIN) == marshal.dumps(other, _PLAIN)


def _join(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


def _parse(text: str) -> Any:
    return msgspec.json.decode(text)


def _canonical(document: Any) -> str:
    return json.dumps(document, sort_keys=True)
