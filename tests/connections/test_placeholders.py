"""Placeholders: what they stand for, and what is said of wrong ones."""

from __future__ import annotations

import pytest

from penstock.connections.placeholders import PlaceholderText
from penstock.wire.ditto.errors import DittoError

ALLOWED = frozenset({"header", "thing", "topic"})
KNOWN = {("header", "device"): "Press-1", ("thing", "id"): "plant:press", ("header", "empty"): ""}


def resolve(prefix: str, name: str) -> str | None:
    return KNOWN.get((prefix, name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a/{{ header:device }}/b", "a/Press-1/b"),
        ("{{header:device}}{{ thing:id }}", "Press-1plant:press"),
        ("{{ header:none | fn:default('x|y') }}", "x|y"),
        ("{{ header:none | fn:default(thing:id) }}", "plant:press"),
        ("{{ header:device | fn:lower() | fn:substring-after('-') }}", "1"),
        ("{{ thing:id | fn:substring-before(':') | fn:upper() }}", "PLANT"),
        ('{{ thing:id | fn:replace(":", "/") }}', "plant/press"),
        ("{{ thing:id | fn:url-encode() }}", "plant%3Apress"),
        ("{{ header:empty }}", ""),
        ("{{ thing:id | fn:base64-encode() }}", "cGxhbnQ6cHJlc3M="),
        ("{{ thing:id | fn:base64-encode() | fn:base64-decode() }}", "plant:press"),
        ("{{ thing:id | fn:filter('like', 'plant:*') }}", "plant:press"),
        ("{{ thing:id | fn:filter('like','shop:*|plant:*') }}", "plant:press"),
        ("{{ thing:id | fn:filter('eq','plant:press') }}", "plant:press"),
        ("{{ thing:id | fn:filter(header:device,'ne','x') }}", "plant:press"),
        ("{{ thing:id | fn:filter(header:device,'exists') }}", "plant:press"),
        ("{{ thing:id | fn:filter(header:none,'exists','false') }}", "plant:press"),
        ("{{ thing:id | fn:filter('x','eq','x') }}", "plant:press"),
        ("{{ thing:id | fn:filter('ne','plant:press') | fn:default('other') }}", "other"),
    ],
)
def test_a_placeholder_stands_for_a_part_of_the_message(text: str, expected: str) -> None:
    assert PlaceholderText(text, ALLOWED).of(resolve) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ header:none }}",
        "{{ thing:id | fn:substring-after('#') }}",
        "{{ thing:id | fn:delete() }}",
        "{{ thing:id | fn:base64-decode() }}",
        "{{ header:none | fn:filter('exists','false') }}",
        "{{ thing:id | fn:filter(header:none,'exists') }}",
        "{{ thing:id | fn:filter(header:none,'eq','x') }}",
        "{{ thing:id | fn:filter('like','shop:*') }}",
    ],
)
def test_what_is_missing_is_named(text: str) -> None:
    with pytest.raises(DittoError, match="could not be resolved") as raised:
        PlaceholderText(text, ALLOWED).of(resolve)
    assert raised.value.code == "placeholder:unresolved"
    assert PlaceholderText(text, ALLOWED).maybe(resolve) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ nothing }}", "is not a placeholder that is known here"),
        ("{{ policy:id }}", "is not a placeholder that is known here"),
        ("{{ thing:size }}", "expected thing: with id, namespace, name"),
        ("{{ header: }}", "expected header: with a name"),
        ("{{ thing:id | lower }}", "expected a function after"),
        ("{{ thing:id | fn:eval() }}", "there is no function 'fn:eval'"),
        ("{{ thing:id | fn:default() }}", "takes 1 arguments, 0 are given"),
        ("{{ thing:id | fn:default(x y) }}", "texts in quotes"),
        ("{{ thing:id | fn:filter() }}", "takes 1 or 2 or 3 arguments, 0 are given"),
        ("{{ thing:id | fn:filter('gt','1') }}", "then one of eq, ne, exists, like"),
        ("{{ thing:id | fn:filter('eq') }}", "then one of eq, ne, exists, like"),
        ("{{ thing:id | fn:filter(header:device) }}", "then one of eq, ne, exists, like"),
        ("{{ thing:id", "is not closed"),
    ],
)
def test_a_wrong_one_is_refused_with_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(DittoError) as raised:
        PlaceholderText(text, ALLOWED)
    assert words in raised.value.message
