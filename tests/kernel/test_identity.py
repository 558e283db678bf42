from __future__ import annotations

import os

import pytest

from penstock.kernel.identity import SECRET_BYTES, SessionIds, public, same


def test_an_identifier_carries_128_secret_bits_a_key_and_the_node() -> None:
    ids = SessionIds("node-7", os.urandom)
    one, other = ids.new(), ids.new()
    assert one != other
    assert one.endswith("Tnode-7")
    assert SECRET_BYTES * 8 == 128
    assert len(one) == len("S") + 16 + 2 * SECRET_BYTES + len("Tnode-7")
    assert ids.key(one) == one[1:17]


def test_what_is_shown_of_an_identifier_has_its_key_and_nothing_secret() -> None:
    ids = SessionIds("n", os.urandom)
    one = ids.new()
    assert public(one) == f"S{ids.key(one)}"
    assert ids.key(public(one)) is None


@pytest.mark.parametrize("text", ["", "S", "nonsense", "S" + "0" * 47 + "Tn", "S" + "0" * 48, "s" + "0" * 48 + "Tn"])
def test_other_text_has_no_key_and_no_owner(text: str) -> None:
    ids = SessionIds("n", os.urandom)
    assert ids.key(text) is None
    assert not ids.is_foreign(text)


def test_an_identifier_of_another_node_is_foreign() -> None:
    here, there = SessionIds("here", os.urandom), SessionIds("there", os.urandom)
    assert here.is_foreign(there.new())
    assert not here.is_foreign(here.new())


def test_identifiers_are_the_same_only_when_every_character_is() -> None:
    assert same("Sabc", "Sabc")
    assert not same("Sabc", "Sabd")
    assert not same("Sabc", "Sab")
    assert not same("Sabc", "Sab\u00e9")
