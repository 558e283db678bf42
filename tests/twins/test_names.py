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


def test_a_policy_is_another_entity_than_the_thing_with_its_name() -> None:
    assert NAMES.key("DITTO/THINGS/ns:a") == thing_key("ns:a") != policy_key("ns:a")
    assert NAMES.key("DITTO/POLICIES/ns:a") == policy_key("ns:a")
    assert (thing_key("ns:a").is_policy, policy_key("ns:a").is_policy) == (False, True)


def test_patterns_are_of_all_things_and_policies() -> None:
    assert NAMES.patterns() == ("DITTO/THINGS/*", "DITTO/POLICIES/*")
    assert TwinNames("my").patterns() == ("my/THINGS/*", "my/POLICIES/*")
