from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.search import (
    BY_ID,
    MAX_NAMESPACES,
    SearchOptions,
    SearchSubscribe,
    Selection,
    SortKey,
    cursor_of,
    parse_options,
    parse_search,
    read_selection,
)
from penstock.wire.ditto.streaming import Cancel, DemandRequest
from penstock.wire.ditto.topic import parse_topic
from tests.wire.ditto.values import SCALARS

OPTION = (400, "thing-search:search.option.invalid")


def refused(text: str) -> str:
    with pytest.raises(DittoError) as raised:
        parse_options(text)
    assert (raised.value.status, raised.value.code) == OPTION
    return str(raised.value.description)


def test_options_are_read_in_any_order() -> None:
    assert parse_options("size(7),sort(-attributes/x,+thingId),cursor(abc)") == SearchOptions(
        (SortKey("/attributes/x", True), *BY_ID), 7, "abc"
    )
    assert parse_options("limit(20,10)") == SearchOptions(BY_ID, 10, None, 20)
    assert parse_options("") == SearchOptions()


def test_a_sort_always_ends_with_the_id() -> None:
    assert parse_options("sort(+attributes/x)").sort == (SortKey("/attributes/x"), *BY_ID)
    assert parse_options("sort(-thingId,+attributes/x)").sort == (SortKey("/thingId", True),)


def test_a_plus_that_became_a_space_is_a_plus() -> None:
    assert parse_options("sort( thingId)").sort == BY_ID


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("size(0)", "allowed: 1 to 200"),
        ("size(201)", "allowed: 1 to 200"),
        ("size(x)", "'size' has the value 'x'"),
        ("size(5),size(6)", "more than 1 'size'"),
        ("sort(thingId)", "expected + or - and a property"),
        ("sort()", "expected + or -"),
        ("sort(+a//b)", "sort"),
        ("sort(" + ",".join(["+a"] * 11) + ")", "11 properties, allowed: 10"),
        ("limit(1)", "two numbers"),
        ("limit(0,201)", "allowed: 0 to 200"),
        ("limit(100001,1)", "allowed: 0 to 100000"),
        ("limit(0,5),size(5)", "must not be used together"),
        ("limit(0,5),cursor(x)", "must not be used together"),
        ("first(5)", "no option 'first'"),
        ("size(5", "position 1"),
        ("size(5),,", "position 9"),
        ("size(5),", "after the last comma"),
        ("nonsense", "position 1"),
    ],
)
def test_a_bad_option_is_named_with_what_is_allowed(text: str, told: str) -> None:
    assert told in refused(text)


def cursor(filter: str | None, options: str, *values: Any) -> str:
    return cursor_of(read_selection(Selection(filter, options)), values)


def test_a_cursor_brings_back_its_position() -> None:
    made = cursor("eq(a,1)", "sort(-b)", 7, "ns:t")
    assert read_selection(Selection("eq( a , 1 )", f"size(3),sort(-b),cursor({made})")).after == (7, "ns:t")


@given(SCALARS)
def test_a_cursor_brings_back_any_value(value: Any) -> None:
    made = cursor(None, "sort(+x)", value, "ns:t")
    assert read_selection(Selection(None, f"sort(+x),cursor({made})")).after == (value, "ns:t")


@pytest.mark.parametrize(
    ("filter", "options", "told"),
    [
        ("eq(a,2)", "sort(-b),cursor({})", "'filter' must not differ"),
        (None, "sort(-b),cursor({})", "'filter' must not differ"),
        ("eq(a,1)", "cursor({})", "'sort' must not differ"),
        ("eq(a,1)", "sort(+b),cursor({})", "'sort' must not differ"),
        ("eq(a,1)", "sort(-b),cursor(!!!)", "not one that this server has made"),
        ("eq(a,1)", "sort(-b),cursor(e30)", "not one that this server has made"),
        ("eq(a,1)", "sort(-b),cursor()", "not one that this server has made"),
    ],
)
def test_a_cursor_of_another_search_is_refused(filter: str | None, options: str, told: str) -> None:
    made = cursor("eq(a,1)", "sort(-b)", 7, "ns:t")
    with pytest.raises(DittoError) as raised:
        read_selection(Selection(filter, options.format(made)))
    assert (raised.value.status, raised.value.code) == OPTION
    assert raised.value.message == "The option 'cursor' is not valid for the search request."
    assert told in str(raised.value.description)


def test_a_cursor_with_too_few_values_is_refused() -> None:
    made = cursor(None, "sort(+x)", "ns:t")
    with pytest.raises(DittoError, match="cursor"):
        read_selection(Selection(None, f"sort(+x),cursor({made})"))


@pytest.mark.parametrize("namespaces", [("1a",), ("a b",), ("a.",), ("a",) * (MAX_NAMESPACES + 1)])
def test_bad_namespaces_are_refused(namespaces: tuple[str, ...]) -> None:
    with pytest.raises(DittoError) as raised:
        read_selection(Selection(namespaces=namespaces))
    assert (raised.value.status, raised.value.code) == (400, "thing-search:search.namespaces.invalid")


def test_a_search_that_is_streamed_has_neither_cursor_nor_limit() -> None:
    for options in ("limit(0,5)", "cursor(x)"):
        with pytest.raises(DittoError, match="option"):
            read_selection(Selection(None, options), is_streamed=True)


def envelope(action: str, value: Any = None, topic: str = "_/_/things/twin/search/", **more: Any) -> Envelope:
    return Envelope(parse_topic(topic + action), value=value, **more)


def test_the_three_commands_are_read() -> None:
    value = {"filter": "eq(a,1)", "options": "size(5)", "namespaces": ["a.b", "c"]}
    read = parse_search(envelope("subscribe", value, fields="thingId"))
    assert isinstance(read, SearchSubscribe)
    assert read.selection == Selection("eq(a,1)", "size(5)", ("a.b", "c"), "thingId")
    request = parse_search(envelope("request", {"subscriptionId": "0", "demand": 3}))
    assert isinstance(request, DemandRequest)
    assert (request.subscription, request.demand) == ("0", 3)
    assert isinstance(parse_search(envelope("cancel", {"subscriptionId": "0"})), Cancel)


def test_a_list_of_options_is_one_text() -> None:
    read = parse_search(envelope("subscribe", {"options": ["size(5)", "sort(+a)"]}))
    assert isinstance(read, SearchSubscribe)
    assert read.selection.options == "size(5),sort(+a)"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (envelope("next"), "protocoladapter:unknown.topicpath"),
        (envelope("subscribe", topic="ns/x/things/twin/search/"), "protocoladapter:unknown.topicpath"),
        (envelope("subscribe", topic="_/_/things/live/search/"), "protocoladapter:unknown.topicpath"),
        (envelope("subscribe", path="/attributes"), "protocoladapter:unknown.path"),
        (envelope("subscribe", {"filter": 1}), "json.invalid"),
        (envelope("subscribe", {"options": 1}), "json.invalid"),
        (envelope("subscribe", {"namespaces": "a"}), "json.invalid"),
        (envelope("subscribe", {"namespaces": [1]}), "json.invalid"),
        (envelope("request", {"demand": 1}), "json.field.missing"),
        (envelope("cancel"), "json.field.missing"),
    ],
)
def test_a_message_that_is_none_is_refused(message: Envelope, code: str) -> None:
    with pytest.raises(DittoError) as raised:
        parse_search(message)
    assert (raised.value.status, raised.value.code) == (400, code)
