from __future__ import annotations

from penstock.kernel.alike import (
    MAX_ITEMS,
    forget_alike,
    shared_address,
    shared_admission,
    shared_grant,
    shared_item,
    shared_name,
)
from penstock.kernel.ports import Admission, Grant, ItemGrant


def test_names_are_not_kept_for_ever() -> None:
    name = shared_name("".join(["an", " item"]))
    assert shared_name("".join(["an", " item"])) is name
    forget_alike()
    assert shared_name.cache_info().currsize == 0


def test_addresses_do_not_displace_names() -> None:
    forget_alike()
    address = shared_address("".join(["192.0.2", ".7"]))
    assert shared_address("".join(["192.0.2", ".7"])) is address
    assert shared_name.cache_info().currsize == 0
    forget_alike()
    assert shared_address.cache_info().currsize == 0


def test_sessions_that_may_have_the_same_have_one_grant() -> None:
    item = shared_item("a", 2.0, None, 10, 0.0)
    assert item == ItemGrant("a", max_frequency=2.0, snapshot_length=10)
    assert shared_item("a", 2.0, None, 10, 0.0) is item
    assert shared_item("a", 3.0, None, 10, 0.0) == ItemGrant("a", max_frequency=3.0, snapshot_length=10)
    grant = shared_grant((item,), ("x", "y"))
    assert grant == Grant((item,), ("x", "y"))
    assert shared_grant((item,), ("x", "y")) is grant
    assert shared_grant((item,), ("y", "x")) == Grant((item,), ("y", "x"))
    forget_alike()
    assert shared_item("a", 2.0, None, 10, 0.0) is not item
    assert shared_grant((item,), ("x", "y")) is not grant


def test_sessions_that_may_be_sent_the_same_have_one_admission() -> None:
    admission = shared_admission(Admission(40.0, roles=frozenset({"trader"})))
    assert shared_admission(Admission(40.0, roles=frozenset({"trader"}))) is admission
    assert shared_admission(Admission(40.0)) == Admission(40.0)
    forget_alike()
    assert shared_admission(Admission(40.0, roles=frozenset({"trader"}))) is not admission


def test_a_grant_of_very_many_items_is_not_kept() -> None:
    items = tuple([shared_item(f"item {number}", None, None, 10, 0.0) for number in range(MAX_ITEMS + 1)])
    grant = shared_grant(items, ("x",))
    assert grant == Grant(items, ("x",))
    assert shared_grant(items, ("x",)) is not grant
