from __future__ import annotations

from penstock.twins.names import TwinNames, policy_key, thing_key

NAMES = TwinNames()


def test_names_are_those_of_items_and_can_be_read_back() -> None:
    assert NAMES.entity(thing_key("ns:a/b")) == "DITTO/THINGS/ns:a/b"
    assert NAMES.entity(policy_key("ns:a")) == "DITTO/POLICIES/ns:a"
    for key in (thing_key("ns:a"), policy_key("org.x:äpfel?".replace("ä", "a"))):
        for names in (NAMES, TwinNames("my/set%")):
            assert names.key(names.entity(key)) == key
    for entity in ("DITTO/THINGS", "DITTO/OTHER/ns:a", "X/THINGS/ns:a", "DITTO/THINGS/nocolon", "DITTO/THINGS/1ns:a"):
        assert NAMES.key(entity) is None
