from __future__ import annotations

import fnmatch
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.instant import parse_instant
from penstock.wire.ditto.predicate import is_like, matches
from penstock.wire.ditto.rql import parse_rql

# A moment in microseconds.
NOON = 1_750_000_000_000_000

THING: dict[str, Any] = {
    "thingId": "org.eclipse:lamp",
    "policyId": "org.eclipse:p",
    "attributes": {
        "counter": 12,
        "ratio": 0.5,
        "name": "Kitchen",
        "on": True,
        "off": False,
        "nothing": None,
        "tags": ["red", "green", 5],
        "none": [],
        "empty": {},
        "blank": "",
        "zero": 0,
        "rooms": [{"n": 1}, {"n": 2}, {"m": 3}],
        "a/b": 1,
        "deep": {"er": {"still": "x"}},
    },
    "features": {"lamp": {"properties": {"value": 51}}, "bamboo": {"properties": {"value": 3}}},
    "_revision": 7,
    "_modified": "2024-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    "expression",
    [
        "eq(attributes/counter,12)",
        "eq(/attributes/counter,12)",
        "eq(attributes/counter,12.0)",
        "ne(attributes/counter,13)",
        "ne(attributes/missing,13)",
        'ne(attributes/counter,"12")',
        "gt(attributes/counter,11)",
        "ge(attributes/counter,12)",
        "lt(attributes/ratio,1)",
        "le(attributes/ratio,0.5)",
        'gt(attributes/name,"K")',
        "eq(attributes/on,true)",
        "eq(attributes/nothing,null)",
        "ne(attributes/counter,null)",
        'in(attributes/name,"Bath","Kitchen")',
        "in(attributes/nothing,null)",
        'like(attributes/name,"K?tch*")',
        'like(attributes/name,"*")',
        'ilike(attributes/name,"kITCH*")',
        'eq(attributes/tags,"red")',
        "eq(attributes/tags,5)",
        "gt(attributes/rooms/n,1)",
        "exists(attributes/rooms/m)",
        "exists(attributes/nothing)",
        "exists(features/bamboo)",
        "exists(attributes/a~1b)",
        "empty(attributes/missing)",
        "empty(attributes/nothing)",
        "empty(attributes/none)",
        "empty(attributes/empty)",
        "empty(attributes/blank)",
        "not(empty(attributes/zero))",
        "not(empty(attributes/off))",
        "gt(features/*/properties/value,50)",
        "eq(features/lamp/properties/value,51)",
        'eq(_namespace,"org.eclipse")',
        'eq(thingId,"org.eclipse:lamp")',
        "ge(_revision,7)",
        'gt(_modified,"2023-12-31T23:59:59Z")',
        "and(exists(features/lamp),eq(attributes/on,true))",
        "or(exists(features/nope),eq(attributes/on,true))",
        "lt(attributes/off,true)",
        'eq(attributes/deep/er/still,"x")',
    ],
)
def test_these_are_true_of_the_thing(expression: str) -> None:
    assert matches(parse_rql(expression), THING, NOON)
    assert not matches(parse_rql(f"not({expression})"), THING, NOON)


@pytest.mark.parametrize(
    "expression",
    [
        "eq(attributes/counter,13)",
        'eq(attributes/counter,"12")',
        "eq(attributes/on,1)",
        "eq(attributes/zero,false)",
        "eq(attributes/missing,null)",
        "eq(attributes/empty,null)",
        "ne(attributes/counter,12)",
        "ne(attributes/nothing,null)",
        'ne(attributes/tags,"red")',
        "gt(attributes/counter,12)",
        "gt(attributes/missing,0)",
        "ge(attributes/nothing,0)",
        "lt(attributes/name,5)",
        "le(attributes/deep,5)",
        'like(attributes/name,"kitchen")',
        'like(attributes/counter,"1*")',
        'in(attributes/name,"Bath")',
        "exists(attributes/missing)",
        "exists(attributes/counter/x)",
        "exists(features/*/definition)",
        "exists(attributes/*)",
        "empty(attributes/zero)",
        "empty(attributes/off)",
        "empty(attributes/name)",
        "and(exists(features/lamp),exists(features/nope))",
        "eq(attributes/counter,time:now)",
        'eq(topic:action,"modified")',
    ],
)
def test_these_are_not(expression: str) -> None:
    assert not matches(parse_rql(expression), THING, NOON)


def test_what_is_known_beside_the_document_can_be_asked_for() -> None:
    known = {"topic:action": "modified"}
    assert matches(parse_rql('eq(topic:action,"modified")'), THING, NOON, known)
    assert matches(parse_rql("exists(topic:action)"), THING, NOON, known)
    assert matches(parse_rql("lt(_modified,time:now)"), THING, NOON, known)


def at(text: str) -> int:
    """A moment in microseconds."""
    nanos = parse_instant(text)
    assert nanos is not None
    return nanos // 1000


@pytest.mark.parametrize(
    ("expression", "true"),
    [
        # As texts these would be in another order, or equal to nothing.
        ('{"t":"2024-01-06T14:23:42Z"} lt(t,time:now)', True),
        ('{"t":"2024-01-06T14:23:42.1230Z"} eq(t,time:now)', True),
        ('{"t":"2024-01-06T16:23:42.123+02:00"} eq(t,time:now)', True),
        ('{"t":"2024-01-06T16:23:42+02:00"} gt(t,time:now)', False),
        ('{"t":"2024-01-06T15:00:00+02:00"} lt(t,time:now)', True),
        ('{"t":"2024-01-06T14:23:42.124Z"} gt(t,time:now)', True),
        ('{"t":"2024-01-06T14:23:42.123Z"} in(t,1,time:now)', True),
        ('{"t":"2024-01-06T14:23:42.123Z"} ne(t,time:now)', False),
        ('{"t":["2020-01-01T00:00:00Z","2030-01-01T00:00:00Z"]} gt(t,time:now)', True),
        # What is no time is not compared with one.
        ('{"t":"9999"} gt(t,time:now)', False),
        ('{"t":"0"} lt(t,time:now)', False),
        ('{"t":1704551022123} eq(t,time:now)', False),
        # Arithmetic.
        ('{"t":"2024-01-06T13:23:42.123Z"} eq(t,time:now-1h)', True),
        ('{"t":"2024-01-06T14:53:42.123Z"} eq(t,time:now+30m)', True),
        ('{"t":"2023-12-30T14:23:42.123Z"} eq(t,time:now-7d)', True),
        ('{"t":"2024-01-06T14:00:00Z"} eq(t,time:now[h])', True),
        ('{"t":"2024-01-06T13:58:00Z"} eq(t,time:now-25m[m])', True),
        # Milliseconds are numbers.
        ('{"t":1704551022123} eq(t,time:now_epoch_millis)', True),
        ('{"t":1704551022122.5} lt(t,time:now_epoch_millis)', True),
        ('{"t":1704547422123} ge(t,time:now_epoch_millis-1h)', True),
        ('{"t":1704499200000} eq(t,time:now_epoch_millis[d])', True),
        ('{"t":true} lt(t,time:now_epoch_millis)', False),
        ('{"t":"2020-01-01T00:00:00Z"} lt(t,time:now_epoch_millis)', False),
    ],
)
def test_time_now_is_compared_as_a_time(expression: str, true: bool) -> None:
    document, _, text = expression.partition("} ")
    now = at("2024-01-06T14:23:42.123456Z") if "millis" in text else at("2024-01-06T14:23:42.123Z")
    assert matches(parse_rql(text), json.loads(document + "}"), now) is true


def test_a_filter_on_counter_leaves_four_of_the_events_five_to_nine_when_it_excludes_one() -> None:
    query = parse_rql("ne(attributes/counter,7)")
    events = [{"thingId": "a:b", "attributes": {"counter": revision}} for revision in range(5, 10)]
    assert [event["attributes"] for event in events if matches(query, event, NOON)] == [
        {"counter": 5},
        {"counter": 6},
        {"counter": 8},
        {"counter": 9},
    ]


@given(st.text("ab*?[.", max_size=12), st.text("ab[.\n", max_size=12))
def test_a_pattern_fits_what_a_regular_expression_fits(pattern: str, text: str) -> None:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    assert is_like(text, pattern) == (re.fullmatch(expression, text, re.DOTALL) is not None)
    if "[" not in pattern:
        assert is_like(text, pattern) == fnmatch.fnmatchcase(text, pattern)


def test_a_pattern_of_many_stars_takes_no_power_of_the_length() -> None:
    # By a regular expression this would not end within the time a test has.
    assert not is_like("a" * 3000, "*a" * 40 + "b")
