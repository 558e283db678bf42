"""JSON Merge Patch: objects are merged, null deletes, everything else replaces. RFC 7396."""

from __future__ import annotations

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.pointer import MISSING, Absent, Pointer, delete, get, put


def merge(target: Json | Absent, patch: Json) -> Json:
    """The target with the patch applied. Neither is changed; what the patch does not touch is shared."""
    if type(patch) is not dict:
        return patch
    result = dict(target) if type(target) is dict else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key, MISSING), value)
    return result


def merge_at(document: Json, pointer: Pointer, patch: Json) -> Json | Absent:
    """The document with the patch applied at a pointer, where null deletes; MISSING if nothing is left."""
    if patch is None:
        return delete(document, pointer)
    return put(document, pointer, merge(get(document, pointer), patch))
