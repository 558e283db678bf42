from __future__ import annotations

import contextlib
import json
import random
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.wire.tlcp import jsondiff
from penstock.wire.tlcp.errors import ControlCode, RequestError
from penstock.wire.tlcp.jsondiff import MAX_KEPT, MAX_KEPT_LENGTH, MAX_LENGTH, decode_patch, encode_patch

# Names that a path has to escape are frequent.
NAME = st.sampled_from(["a", "b", "c", "", "/", "~", "~1", "0", "-", "é𝄞", "a/b~c"])
LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, -0.0, 1.0, 2.5, 1e300])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
)
DOCUMENT = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(NAME, inner, max_size=5), max_leaves=25
)


def canonical(document: Any) -> str:
    """A text in which true, 1 and 1.0 differ, as do 0.0 and -0.0, and the order of names does not count."""
    return json.dumps(document, sort_keys=True)


def operations(base: Any, document: Any) -> Any:
    patch = encode_patch(json.dumps(base), json.dumps(document))
    assert patch is not None
    return json.loads(patch)


@given(DOCUMENT, DOCUMENT)
@example([True, 1, 1.0, 0.0], [1, 1.0, True, -0.0])
@example({"a": [1, 2, 3]}, {"a": [3, 2, 1]})
@example([[1], [2], [3]], [[2], [3, 4]])
@example({"-": [0]}, {"-": [0, 1], "0": 1})
def test_any_document_is_rebuilt_from_any_other(base: Any, document: Any) -> None:
    text = json.dumps(base)
    patch = encode_patch(text, json.dumps(document))
    assert (patch is None) == (base is None or document is None)
    if patch is not None:
        assert canonical(json.loads(decode_patch(text, patch))) == canonical(document)


@given(DOCUMENT, DOCUMENT, st.data())
def test_a_document_with_one_part_changed_is_rebuilt(base: Any, part: Any, data: st.DataObject) -> None:
    document = [base, {"left": [1, base, 2], "right": part}]
    changed = [base, {"left": [1, data.draw(DOCUMENT), *data.draw(st.lists(LEAF, max_size=3))], "right": part}]
    patch = operations(document, changed)
    rebuilt = decode_patch(json.dumps(document), json.dumps(patch))
    assert canonical(json.loads(rebuilt)) == canonical(changed)
    assert all(operation["path"].startswith("/1/left") for operation in patch)


@pytest.mark.parametrize(
    ("base", "document", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": 2}, [{"op": "replace", "path": "/a", "value": 2}]),
        ([1], [True], [{"op": "replace", "path": "/0", "value": True}]),
        ([1], {"a": 1}, [{"op": "replace", "path": "", "value": {"a": 1}}]),
        ({"a": "x" * 99, "b": 1}, {"a": "x" * 99, "b": True}, [{"op": "replace", "path": "/b", "value": True}]),
        ({"a": "x" * 99, "b": 1}, {"a": "x" * 99, "b": 1.0}, [{"op": "replace", "path": "/b", "value": 1.0}]),
        ({"a": "x" * 99}, {"a": "x" * 99, "b": None}, [{"op": "add", "path": "/b", "value": None}]),
        ({"a": "x" * 99, "b": None}, {"a": "x" * 99}, [{"op": "remove", "path": "/b"}]),
        ([*range(50)], [*range(1, 50)], [{"op": "remove", "path": "/0"}]),
        ([*range(50)], [*range(25), "new", *range(25, 50)], [{"op": "add", "path": "/25", "value": "new"}]),
        ([*range(50)], [*range(49), "new"], [{"op": "replace", "path": "/49", "value": "new"}]),
        ({"a/b~c": [*range(50)]}, {"a/b~c": [*range(49)]}, [{"op": "remove", "path": "/a~1b~0c/49"}]),
    ],
)
def test_a_small_change_is_a_small_patch(base: Any, document: Any, expected: Any) -> None:
    found = operations(base, document)
    assert canonical(found) == canonical(expected)


def test_edits_in_several_places_of_an_array_are_found() -> None:
    base = [{"id": number, "text": "x" * 20} for number in range(200)]
    document = [*base[1:50], {"id": "new"}, *base[50:100], *base[103:200]]
    assert [(operation["op"], operation["path"]) for operation in operations(base, document)] == [
        ("remove", "/0"),
        ("add", "/49"),
        ("remove", "/100"),
        ("remove", "/100"),
        ("remove", "/100"),
    ]


def test_what_has_changed_altogether_is_replaced_as_a_whole() -> None:
    base = {"keep": "x" * 200, "part": {str(number): number for number in range(20)}}
    document = {"keep": "x" * 200, "part": {str(number): -number - 1 for number in range(20)}}
    assert [(operation["op"], operation["path"]) for operation in operations(base, document)] == [("replace", "/part")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "{",
        "{'a': 1}",
        '{"a": 1} x',
        "null",
        "NaN",
        '{"a": NaN}',
        "[Infinity]",
        "[-Infinity]",
        "[1e999]",
        "[-1e999]",
        "[" * 100_000 + "]" * 100_000,
        "[" + "9" * 10_000 + "]",
        '["\\ud800"]',
        json.dumps("x" * MAX_LENGTH),
    ],
)
def test_there_is_no_patch_to_what_is_not_json_or_cannot_be_sent(text: str) -> None:
    assert encode_patch('{"a": 1}', text) is None


@pytest.mark.parametrize(
    "text", ["", "x", "null", "[NaN]", "[" * 100_000 + "]" * 100_000, json.dumps("x" * MAX_LENGTH)]
)
def test_there_is_no_patch_from_what_is_not_json_or_too_long(text: str) -> None:
    assert encode_patch(text, '{"a": 1}') is None


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_texts_have_a_patch_or_none(base: str, text: str) -> None:
    patch = encode_patch(base, text)
    if patch is not None:
        assert canonical(json.loads(decode_patch(base, patch))) == canonical(json.loads(text))


@pytest.mark.parametrize(
    ("base", "patch"),
    [
        ("x", "[]"),
        ("", "[]"),
        ("{}", "x"),
        ("{}", ""),
        ("{}", "1"),
        ("{}", "null"),
        ("{}", "[1]"),
        ("{}", "[[]]"),
        ("{}", "[{}]"),
        ("{}", '["op"]'),
        ("{}", '[{"op":"replace"}]'),
        ("{}", '[{"op":"explode","path":"/a"}]'),
        ("{}", '[{"op":"replace","path":"/a","value":1}]'),
        ("{}", '[{"op":"remove","path":"/a"}]'),
        ("{}", '[{"op":"add","path":"a","value":1}]'),
        ("{}", '[{"op":"add","path":1,"value":1}]'),
        ("{}", '[{"op":"add","path":"/a/b","value":1}]'),
        ("[]", '[{"op":"add","path":"/7","value":1}]'),
        ("[]", '[{"op":"add","path":"/x","value":1}]'),
        ("[0]", '[{"op":"remove","path":"/-"}]'),
        ("1", '[{"op":"remove","path":"/a"}]'),
        ('"text"', '[{"op":"replace","path":"/0","value":1}]'),
        ("{}", '[{"op":"move","path":"/a"}]'),
        ("{}", '[{"op":"copy","from":3,"path":"/a"}]'),
        ("{}", '[{"op":"test","path":"/a","value":1}]'),
        ("{}", "[" * 100_000),
    ],
)
def test_a_patch_that_does_not_fit_is_malformed(base: str, patch: str) -> None:
    with pytest.raises(RequestError, match="JSON Patch") as caught:
        decode_patch(base, patch)
    assert caught.value.code == ControlCode.MALFORMED


OPERATION = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]) | LEAF,
        "path": st.sampled_from(["", "/", "/a", "/0", "/-", "/a/0", "/~"]) | LEAF,
        "from": st.sampled_from(["", "/a", "/0"]) | LEAF,
        "value": DOCUMENT,
    },
)


@given(DOCUMENT, st.lists(OPERATION, max_size=4) | DOCUMENT)
def test_any_json_is_a_patch_or_malformed(base: Any, patch: Any) -> None:
    # Anything but the one exception fails the test.
    with contextlib.suppress(RequestError):
        json.loads(decode_patch(json.dumps(base), json.dumps(patch)))


def shuffled(length: int) -> list[int]:
    numbers = [*range(length)]
    random.Random(1).shuffle(numbers)
    return numbers


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = [leaf, 0]
    return leaf


@pytest.mark.parametrize(
    ("base", "document"),
    [
        ([*range(20_000)], shuffled(20_000)),
        ([*range(20_000)], [str(number) for number in range(20_000)]),
        ([*range(20_000)], [*range(5, 20_000), 1, 2, 3]),
        ({f"a{number}": number for number in range(9_000)}, {f"b{number}": number for number in range(9_000)}),
        (nested(200, [*range(20_000)]), nested(200, [*range(1, 20_001)])),
    ],
    ids=["shuffled", "other types", "few edits", "other names", "deep"],
)
def test_no_pair_of_long_documents_takes_long(base: Any, document: Any) -> None:
    texts = json.dumps(base), json.dumps(document)
    start = time.process_time()
    encode_patch(*texts)
    # Many times what it takes, because a large process may collect its garbage meanwhile: with time squared, minutes.
    assert time.process_time() - start < 10


@given(DOCUMENT, DOCUMENT, DOCUMENT)
def test_documents_that_are_kept_from_the_last_comparison_are_as_they_were(first: Any, second: Any, third: Any) -> None:
    """The new document of one comparison is the old one of several others, each with its own patch."""
    texts = [json.dumps([document, {"same": list(range(30))}]) for document in (first, second, third)]
    for base, text in ((0, 1), (1, 2), (1, 2), (1, 0), (2, 1), (0, 1)):
        patch = encode_patch(texts[base], texts[text])
        assert patch is not None
        assert canonical(json.loads(decode_patch(texts[base], patch))) == canonical(json.loads(texts[text]))


def test_no_more_documents_are_kept_than_may_be() -> None:
    for number in range(MAX_KEPT * 2):
        assert encode_patch(json.dumps([number]), json.dumps([number + 1])) is not None
    assert len(jsondiff._kept) <= MAX_KEPT
    assert encode_patch("[1]", json.dumps(["x" * MAX_KEPT_LENGTH])) is not None
    assert max(map(len, jsondiff._kept)) <= MAX_KEPT_LENGTH


def test_a_change_far_inside_is_found_by_either_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a change at the innermost of many levels the quick one would look at everything again at every level."""

    def nested(value: int) -> Any:
        document: Any = value
        for level in range(150):
            document = {"padding": "x" * 20, "inner": [level, document]}
        return document

    texts = [json.dumps(nested(1)), json.dumps(nested(2))]
    expected = [{"op": "replace", "path": "/inner/1" * 150, "value": 2}]
    for looks in (jsondiff.QUICK_LOOKS, 10**6, 0):
        monkeypatch.setattr(jsondiff, "QUICK_LOOKS", looks)
        patch = encode_patch(*texts)
        assert patch is not None
        assert json.loads(patch) == expected
