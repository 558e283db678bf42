from __future__ import annotations

from typing import get_args

import pytest

from penstock.twins.names import thing_key
from penstock.twins.reasons import AlreadyThere, ModelNotAccessible, ModelsNeeded, NotDurable, TwinReason, TwinRefusal


def test_refusals_with_the_same_reason_are_equal() -> None:
    one, same, other = (TwinRefusal(AlreadyThere(thing_key(id))) for id in ("ns:a", "ns:a", "ns:b"))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != AlreadyThere(thing_key("ns:a"))


@pytest.mark.parametrize("kind", get_args(TwinReason))
def test_only_what_the_disk_or_a_model_has_refused_is_worth_trying_again(kind: type[TwinReason]) -> None:
    assert kind.retry is (kind in (NotDurable, ModelsNeeded, ModelNotAccessible))


def test_a_refusal_says_what_it_is_about() -> None:
    refusal = TwinRefusal(NotDurable(thing_key("ns:a")))
    assert refusal.retry
    assert "NotDurable" in str(refusal)
    assert "ns:a" in str(refusal)
