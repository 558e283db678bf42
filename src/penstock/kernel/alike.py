"""What many sessions have alike, names, headers, grants and admissions: one object for all, as there may be thousands.

Kept for a while only (`forget_alike`). Not `sys.intern`: clients choose these names, and some versions of Python keep
interned strings for ever. Who grants what is in `penstock.adapters.authority` and in the adapters; edges are told.
"""

from __future__ import annotations

from functools import lru_cache

from penstock.kernel.headers import shared_headers
from penstock.kernel.ports import Admission, Grant, ItemGrant, Selector

# Objects of each kind that are kept for sharing; those used least go first.
MAX_KEPT = 10_000

# Grants of more items are not shared: few sessions have the same, and to compare them takes long.
MAX_ITEMS = 20


@lru_cache(MAX_KEPT)
def shared_name(name: str) -> str:
    """The same text: client after client subscribes to the same items and fields."""
    return name


@lru_cache(MAX_KEPT)
def shared_address(address: str) -> str:
    """The same: there are many clients behind one proxy. Apart from names, which many addresses would displace."""
    return address


@lru_cache(MAX_KEPT)
def shared_admission(admission: Admission) -> Admission:
    """The same: most users may have what the others may."""
    return admission


@lru_cache(MAX_KEPT)
def shared_item(
    name: str,
    max_frequency: float | None,
    max_buffer_size: int | None,
    snapshot_length: int,
    prefilter_frequency: float,
) -> ItemGrant:
    """What a user may have of an item that nobody customizes."""
    return ItemGrant(name, max_frequency, max_buffer_size, snapshot_length, prefilter_frequency)


def shared_grant(items: tuple[ItemGrant, ...], fields: tuple[str, ...], selector: Selector | None = None) -> Grant:
    """A subscription; its items are from `shared_item`."""
    return (_grant if len(items) <= MAX_ITEMS else Grant)(items, fields, selector)


@lru_cache(MAX_KEPT)
def _grant(items: tuple[ItemGrant, ...], fields: tuple[str, ...], selector: Selector | None) -> Grant:
    return Grant(items, fields, selector)


def forget_alike() -> None:
    """Start sharing from scratch: what is gone need not be kept, nor the memory around it."""
    shared_name.cache_clear()
    shared_address.cache_clear()
    shared_headers.cache_clear()
    shared_admission.cache_clear()
    shared_item.cache_clear()
    _grant.cache_clear()
