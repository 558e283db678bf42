from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.rql import (
    COMPARISONS,
    MAX_DEPTH,
    MAX_LENGTH,
    And,
    Comparison,
    Empty,
    FieldExists,
    In,
    Not,
    Or,
    Placeholder,
    Query,
    parse_rql,
    print_rql,
)

# The examples of upstream's documentation and of our notes.
EXAMPLES: list[tuple[str, Query]] = [
    ('and(eq(foo,"ditto"),lt(bar,10))', And((Comparison("eq", "foo", "ditto"), Comparison("lt", "bar", 10)))),
    ('eq(attributes/location,"kitchen")', Comparison("eq", "attributes/location", "kitchen")),
    ('ne(attributes/owner,"SID123")', Comparison("ne", "attributes/owner", "SID123")),
    ('gt(thingId,"A000")', Comparison("gt", "thingId", "A000")),
    ('ge(thingId,"A000")', Comparison("ge", "thingId", "A000")),
    ('lt(thingId,"A000")', Comparison("lt", "thingId", "A000")),
    ('le(thingId,"A000")', Comparison("le", "thingId", "A000")),
    ('in(thingId,"A000","AB00","AZ99")', In("thingId", ("A000", "AB00", "AZ99"))),
    ('like(attributes/key1,"*known-chars-at-end")', Comparison("like", "attributes/key1", "*known-chars-at-end")),
    ('ilike(attributes/key1,"*known-CHARS-at-end")', Comparison("ilike", "attributes/key1", "*known-CHARS-at-end")),
    ("exists(features/feature_1)", FieldExists("features/feature_1")),
    ("empty(attributes/tags)", Empty("attributes/tags")),
    (
        'or(empty(attributes/tags),eq(attributes/tags,"default"))',
        Or((Empty("attributes/tags"), Comparison("eq", "attributes/tags", "default"))),
    ),
    (
        'not(like(thingId,"org.eclipse.ditto:blocked*"))',
        Not(Comparison("like", "thingId", "org.eclipse.ditto:blocked*")),
    ),
    ("gt(features/temperature/properties/value,50)", Comparison("gt", "features/temperature/properties/value", 50)),
    ("ne(attributes/counter,12)", Comparison("ne", "attributes/counter", 12)),
    ("ge(attributes/counter,50)", Comparison("ge", "attributes/counter", 50)),
    ("eq(attributes/x,-1.5)", Comparison("eq", "attributes/x", -1.5)),
    ("in(attributes/x,true,false,null,0)", In("attributes/x", (True, False, None, 0))),
    ("gt(_modified,time:now)", Comparison("gt", "_modified", Placeholder("time:now"))),
    ('eq(topic:action,"modified")', Comparison("eq", "topic:action", "modified")),
    ("and(exists(a))", And((FieldExists("a"),))),
]


@pytest.mark.parametrize(("text", "query"), EXAMPLES)
def test_the_examples_of_the_documentation_are_read_and_written(text: str, query: Query) -> None:
    assert parse_rql(text) == query
    assert print_rql(query) == text


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("eq(a,'single \"quotes\"')", Comparison("eq", "a", 'single "quotes"')),
        (r"eq(a,'it\'s')", Comparison("eq", "a", "it's")),
        (r'eq(a,"q\" b\\ s\/ \n\t\r\b\f ü")', Comparison("eq", "a", 'q" b\\ s/ \n\t\r\b\f ü')),
        (r'eq(a,"\ud83d\ude00")', Comparison("eq", "a", "😀")),
        (r"exists(a\u002cb\u0029)", FieldExists("a,b)")),
        (" and( eq(a,1) , eq(b,+2) ) ", And((Comparison("eq", "a", 1), Comparison("eq", "b", 2)))),
        ("eq( a , 1 )", Comparison("eq", "a", 1)),
        ("eq(a b,1)", Comparison("eq", "a b", 1)),
        ("eq(a(b,1)", Comparison("eq", "a(b", 1)),
        ("eq(a,9223372036854775807)", Comparison("eq", "a", 2**63 - 1)),
        ("eq(a,-9223372036854775808)", Comparison("eq", "a", -(2**63))),
        ("eq(a,0.5)", Comparison("eq", "a", 0.5)),
    ],
)
def test_other_ways_to_write_are_understood(text: str, query: Query) -> None:
    assert parse_rql(text) == query


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 1),
        ("   ", 4),
        ("eq", 3),
        ("eq (a,1)", 3),
        ("foo(a,1)", 1),
        ("EQ(a,1)", 1),
        ("eq()", 4),
        ("eq(a)", 5),
        ("eq(,1)", 4),
        ("eq(/,1)", 4),
        ("eq(a//b,1)", 4),
        ('eq("a",1)', 4),
        ('eq(a"b",1)', 5),
        ("eq(a,)", 6),
        ("eq(a,b)", 6),
        ("eq(a,1", 7),
        ("eq(a,1))", 8),
        ("eq(a,1)x", 8),
        ("eq(a,1,2)", 7),
        ("eq(a,007)", 6),
        ("eq(a,1e5)", 6),
        ("eq(a,1.)", 6),
        ("eq(a,.5)", 6),
        ("eq(a,truex)", 6),
        ("eq(a,9223372036854775808)", 6),
        ("eq(a," + "9" * 5000 + ")", 6),
        ("eq(a," + "9" * 500 + ".0)", 6),
        ('eq(a,"b)', 9),
        (r'eq(a,"\x")', 7),
        (r'eq(a,"\u12")', 7),
        (r'eq(a,"\ud800")', 7),
        ("like(a,5)", 1),
        ("and()", 5),
        ("and(eq(a,1),)", 13),
        ("and(eq(a,1) eq(b,2))", 13),
        ("not(eq(a,1),eq(b,2))", 12),
        ("or(eq(a,1)", 11),
        ("exists(a,1)", 9),
        ("in(a)", 5),
        ("eq(a,time:)", 6),
    ],
)
def test_an_error_names_the_position(text: str, position: int) -> None:
    with pytest.raises(DittoError) as caught:
        parse_rql(text)
    assert (caught.value.status, caught.value.code) == (400, "rql.expression.invalid")
    assert f"at position {position}, found" in caught.value.message


def nested(depth: int) -> str:
    return "not(" * depth + "exists(a)" + ")" * depth


def test_depth_and_length_are_bounded() -> None:
    assert print_rql(parse_rql(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(DittoError, match=f"more than {MAX_DEPTH} levels"):
        parse_rql(nested(MAX_DEPTH + 1))
    longest = f'eq(a,"{"x" * (MAX_LENGTH - 8)}")'
    assert len(longest) == MAX_LENGTH
    parse_rql(longest)
    with pytest.raises(DittoError, match=f"allowed: {MAX_LENGTH}"):
        parse_rql(longest + " ")


TEXT = st.text(st.one_of(st.sampled_from("\"'\\,() /~\n*?"), st.characters(exclude_categories=["Cs"])), max_size=8)
PROPERTIES = TEXT.filter(lambda text: "//" not in text and text.strip("/") != "")
LITERALS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from([Placeholder("time:now"), Placeholder("time:now_epoch_millis")])
)
QUERIES: st.SearchStrategy[Query] = st.recursive(
    st.builds(Comparison, st.sampled_from(COMPARISONS[:6]), PROPERTIES, LITERALS)
    | st.builds(Comparison, st.sampled_from(COMPARISONS[6:]), PROPERTIES, TEXT)
    | st.builds(In, PROPERTIES, st.lists(LITERALS, min_size=1, max_size=3).map(tuple))
    | st.builds(FieldExists, PROPERTIES)
    | st.builds(Empty, PROPERTIES),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=5,
)


@given(QUERIES)
def test_every_tree_is_printed_and_parsed(query: Query) -> None:
    text = print_rql(query)
    assert repr(parse_rql(text)) == repr(query)
    assert print_rql(parse_rql(text)) == text


@given(st.text(max_size=30) | st.text("eqandort(),\"'1.-\\u /", max_size=30))
def test_any_text_is_an_expression_or_that_error(text: str) -> None:
    code = None
    try:
        assert parse_rql(print_rql(parse_rql(text))) == parse_rql(text)
    except DittoError as error:
        code = error.code
    assert code in (None, "rql.expression.invalid")
