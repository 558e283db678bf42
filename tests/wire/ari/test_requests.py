from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.testing.ari_peer import Close, ForcedReply, encode_reply, parse_request
from penstock.wire.ari import requests
from penstock.wire.ari.errors import BadPacket
from penstock.wire.ari.lines import LineReader
from penstock.wire.ari.replies import Reply
from penstock.wire.ari.requests import (
    DeviceInfo,
    GetItemData,
    GetItems,
    GetSchema,
    GetUserItemData,
    InitData,
    InitMetadata,
    NotifyActivation,
    NotifyCertifiedUser,
    NotifyDevice,
    NotifyMessage,
    NotifySession,
    NotifySessionEnd,
    NotifyTables,
    NotifyTablesEnd,
    NotifyTokenChange,
    NotifyUser,
    Request,
    Statistics,
    SubscribeItem,
    TableInfo,
    UnsubscribeItem,
    encode_request,
)
from penstock.wire.ari.version import SUPPORTED, Version
from tests.wire.reading import one_by_one, pieces

OLD = Version(1, 8, 3)
NEW = Version(1, 9, 1)

# What 1.8.3 can tell of a table, and what 1.9.1 can.
POOR = TableInfo(3, "MERGE", "g|1", "s 2", 1, 2)
RICH = TableInfo(3, "MERGE", "g|1", "s 2", 1, 2, "sel", "QUOTES", ("a", "b c"))
APPLE = DeviceInfo("Apple", "com.a b", "t|1")
GOOGLE = DeviceInfo("Google", "é", "t")
# The protocol has no letter for it.
OTHER = DeviceInfo(None, "app", "")
FINAL = TableInfo(4, "COMMAND", "g", "s", 1, 1, None, "Q", ("a",), (Statistics(100, 0, 7),))

# Request, version, bytes.
CASES: list[tuple[Request, Version, bytes]] = [
    (
        InitMetadata((("keepalive_hint.millis", "4000"), ("adapters_conf.id", "DEMO"))),
        NEW,
        b"ID|MPI|S|ARI.version|S|1.9.1|S|keepalive_hint.millis|S|4000|S|adapters_conf.id|S|DEMO",
    ),
    (
        InitData((("adapters_conf.id", "DEMO"), ("data_provider.name", "é"), ("own", "a b"))),
        NEW,
        b"ID|DPI|S|ARI.version|S|1.9.1|S|adapters_conf.id|S|DEMO|S|data_provider.name|S|%C3%A9|S|own|S|a+b",
    ),
    (SubscribeItem("it|em é"), OLD, b"ID|SUB|S|it%7Cem+%C3%A9"),
    (SubscribeItem("it|em é"), NEW, "ID|SUB|S|it%7Cem é".encode()),
    (UnsubscribeItem("#"), OLD, b"ID|USB|S|%23"),
    (NotifyUser(None, None), OLD, b"ID|NUS|S|#|S|#"),
    (
        NotifyUser("u", "p|w é", (("User-Agent", "x y"), ("Empty", ""))),
        OLD,
        b"ID|NUS|S|u|S|p%7Cw+%C3%A9|S|User-Agent|S|x+y|S|Empty|S|$",
    ),
    (NotifyCertifiedUser("u", "p", "CN=x", (("H", "v"),)), OLD, b"ID|NUA|S|u|S|p|S|CN%3Dx|S|H|S|v"),
    (NotifySession("u", "S1", (("REMOTE_IP", "127.0.0.1"),)), OLD, b"ID|NNS|S|u|S|S1|S|REMOTE_IP|S|127.0.0.1"),
    (NotifySessionEnd("S1"), OLD, b"ID|NSC|S|S1"),
    (GetItems("u", "a b", "S1"), OLD, b"ID|GIS|S|u|S|a+b|S|S1"),
    (GetItems("u", "a b", "S1"), NEW, b"ID|GIS|S|u|S|a b|S|S1"),
    (GetSchema(None, "a b", "f g", "S1"), OLD, b"ID|GSC|S|#|S|a+b|S|f+g|S|S1"),
    (GetItemData(("a", "b")), OLD, b"ID|GIT|S|a|S|b"),
    (GetUserItemData("u", ("a", "b")), OLD, b"ID|GUI|S|u|S|a|S|b"),
    (NotifyMessage("u", "S1", ""), OLD, b"ID|NUM|S|u|S|S1|S|$"),
    (NotifyTables("u", "S1", (POOR,)), OLD, b"ID|NNT|S|u|S|S1|I|3|M|M|S|g%7C1|S|s+2|I|1|I|2|S|#"),
    (
        NotifyTables("u", "S1", (RICH,)),
        NEW,
        b"ID|NNT|S|u|S|S1|I|3|M|M|S|g%7C1|S|QUOTES|S|s 2|I|1|I|2|S|sel|I|2|S|a|S|b c",
    ),
    (NotifyTablesEnd("S1", (POOR, POOR)), OLD, b"ID|NTC|S|S1" + b"|I|3|M|M|S|g%7C1|S|s+2|I|1|I|2|S|#" * 2),
    (
        NotifyTablesEnd("S1", (FINAL, RICH)),
        NEW,
        b"ID|NTC|S|S1|I|4|M|C|S|g|S|Q|S|s|I|1|I|1|S|#|I|1|S|a|I|1|L|100|L|0|L|7"
        b"|I|3|M|M|S|g%7C1|S|QUOTES|S|s 2|I|1|I|2|S|sel|I|2|S|a|S|b c|I|0",
    ),
    (NotifyDevice("u", "S1", APPLE), OLD, b"ID|MDA|S|u|S|S1|P|A|S|com.a+b|S|t%7C1"),
    (NotifyDevice(None, "S1", OTHER), NEW, b"ID|MDA|S|#|S|S1|P|#|S|app|S|$"),
    (NotifyTokenChange("u", "S1", GOOGLE, "t+2"), OLD, b"ID|MDC|S|u|S|S1|P|G|S|%C3%A9|S|t|S|t%2B2"),
    (NotifyTokenChange("u", "S1", GOOGLE, "t+2"), NEW, "ID|MDC|S|u|S|S1|P|G|S|é|S|t|S|t%2B2".encode()),
    (
        NotifyActivation("u", "S1", POOR, APPLE, "$[1]", '{"a":"$[1] b"}'),
        OLD,
        b"ID|MSA|S|u|S|S1|I|3|M|M|S|g%7C1|S|s+2|I|1|I|2|P|A|S|com.a+b|S|t%7C1"
        b"|S|%24%5B1%5D|S|%7B%22a%22%3A%22%24%5B1%5D+b%22%7D",
    ),
    (
        NotifyActivation("u", "S1", replace(RICH, selector=None), APPLE, None, '{"a":"$[1] b"}'),
        NEW,
        b"ID|MSA|S|u|S|S1|I|3|M|M|S|g%7C1|S|QUOTES|S|s 2|I|1|I|2|I|2|S|a|S|b c|P|A|S|com.a b|S|t%7C1"
        b'|S|#|S|{"a":"$[1] b"}',
    ),
]


@pytest.mark.parametrize(("request_", "version", "line"), CASES)
def test_every_request_has_its_form_in_each_version(request_: Request, version: Version, line: bytes) -> None:
    assert encode_request("ID", request_, version) == line + b"\r\n"


@pytest.mark.parametrize(("request_", "version", "line"), CASES)
def test_an_adapter_reads_the_same_whole_and_byte_by_byte(request_: Request, version: Version, line: bytes) -> None:
    data = line + b"\r\n"
    for sizes in ([], one_by_one(data)):
        reader = LineReader(1_000)
        (found,) = [each for piece in pieces(data, sizes) for each in reader.feed(piece)]
        assert parse_request(found, version) == ("ID", request_)


@pytest.mark.parametrize(("request_", "version", "line"), CASES)
def test_an_adapter_takes_no_request_that_is_cut_off(request_: Request, version: Version, line: bytes) -> None:
    parts = line.decode().split("|")
    for end in range(1, len(parts)):
        try:
            found = parse_request("|".join(parts[:end]), version)
        except BadPacket:
            continue
        # Pairs, items and tables may be fewer.
        assert isinstance(found, tuple)
        assert type(found[1]) is type(request_)
        assert found != ("ID", request_)


def test_an_old_table_says_nothing_of_what_is_new() -> None:
    for request in (NotifyTables("u", "S1", (RICH,)), NotifyTablesEnd("S1", (FINAL,))):
        (table,) = request.tables
        old = TableInfo(table.index, table.mode, table.group, table.schema, 1, table.last_item, table.selector)
        found = parse_request(encode_request("ID", request, OLD).decode().rstrip(), OLD)
        assert isinstance(found, tuple)
        assert isinstance(found[1], NotifyTables | NotifyTablesEnd)
        assert found[1].tables == (old,)


def test_close_may_have_a_reason_and_is_always_of_the_compatible_encoding() -> None:
    assert requests.close() == b"0|CLOSE\r\n"
    assert requests.close("a é") == b"0|CLOSE|S|reason|S|a+%C3%A9\r\n"
    assert parse_request("0|CLOSE", OLD) == Close(None)
    assert parse_request("0|CLOSE|S|reason|S|a+%C3%A9", NEW) == Close("a é")


def test_requests_of_adapters_are_answered() -> None:
    assert requests.session_ended("100") == b"100|FST|V\r\n"
    assert requests.unsubscribed("100", True) == b"100|FUS|B|1\r\n"
    assert requests.unsubscribed("100", False) == b"100|FUS|B|0\r\n"
    assert requests.refused("100", "FST", "no é", NEW) == "100|FST|E|no é\r\n".encode()
    assert parse_request("100|FST|V", NEW) == ForcedReply("100", "FST")
    assert parse_request("100|FUS|B|0", NEW) == ForcedReply("100", "FUS", done=False)
    assert parse_request("100|FUS|E|no é", NEW) == ForcedReply("100", "FUS", done=False, error="no é")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "1",
        "1|XYZ",
        "1|SUB|S|",
        "1|SUB||x",
        "|SUB|S|x",
        "1|SUB|S|é",
        "1|SUB|S|x|S|y",
        "1|CLOSE",
        "1|MPI",
        "1|MPI|S|ARI.version|S|1.8.3",
        "1|FST|S|x",
        "1|NNT|S|u|S|s|I|1|M|MR|S|g|S|s|I|1|I|1|S|#",
        "1|MDA|S|u|S|s|P|X|S|app|S|t",
        "1|MDA|S|u|S|s|S|A|S|app|S|t",
        "1|MSA|S|u|S|s|I|1|M|M|S|g|S|s|I|1|I|1|S|#|P|A|S|app|S|t|S|#|S|f",
    ],
)
def test_an_adapter_of_the_tests_is_strict(line: str) -> None:
    with pytest.raises(BadPacket):
        parse_request(line, OLD)


def test_an_adapter_of_the_tests_sends_no_answer_of_an_unknown_kind() -> None:
    with pytest.raises(TypeError, match="Reply is not an answer"):
        encode_reply(Reply("1", "SUB"), OLD)


def test_a_password_is_not_shown() -> None:
    assert "hidden" not in repr(NotifyUser("u", "hidden"))
    assert "hidden" not in repr(NotifyCertifiedUser("u", "hidden", "p"))


def test_a_token_is_not_shown() -> None:
    assert "hidden" not in repr(NotifyTokenChange("u", "S1", DeviceInfo("Apple", "app", "hidden"), "hidden"))


def test_a_platform_that_the_protocol_does_not_know_is_null() -> None:
    assert b"|P|#|" in encode_request("1", NotifyDevice("u", "S1", DeviceInfo("Web", "app", "t")), NEW)


# -- round trips -------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from("#$|%+ \r\n:é😀a"))
MAYBE = st.none() | TEXT
PAIRS = st.lists(st.tuples(TEXT, MAYBE)).map(tuple)
TEXTS = st.lists(TEXT).map(tuple)
MODES = st.sampled_from(["RAW", "MERGE", "DISTINCT", "COMMAND"])
COUNTS = st.integers(0, 2**63 - 1)
INDEXES = st.integers(0, 2**31 - 1)


DEVICES = st.builds(DeviceInfo, st.sampled_from(["Apple", "Google", None]), TEXT, TEXT)


def table(version: Version, final: bool, selectors: st.SearchStrategy[str | None]) -> st.SearchStrategy[TableInfo]:
    rich = version >= (1, 9, 0)
    statistics = st.lists(st.builds(Statistics, COUNTS, COUNTS, COUNTS)).map(tuple) if rich and final else st.just(())
    return st.builds(
        TableInfo,
        INDEXES,
        MODES,
        TEXT,
        TEXT,
        INDEXES,
        INDEXES,
        selectors,
        MAYBE if rich else st.none(),
        TEXTS if rich else st.just(()),
        statistics,
    )


def tables(version: Version, final: bool) -> st.SearchStrategy[tuple[TableInfo, ...]]:
    return st.lists(table(version, final, MAYBE), max_size=3).map(tuple)


def any_request(version: Version) -> st.SearchStrategy[Request]:
    return st.one_of(
        st.builds(InitMetadata, PAIRS),
        st.builds(InitData, PAIRS),
        st.builds(SubscribeItem, TEXT),
        st.builds(UnsubscribeItem, TEXT),
        st.builds(NotifyUser, MAYBE, MAYBE, PAIRS),
        st.builds(NotifyCertifiedUser, MAYBE, MAYBE, MAYBE, PAIRS),
        st.builds(NotifySession, MAYBE, TEXT, PAIRS),
        st.builds(NotifySessionEnd, TEXT),
        st.builds(GetItems, MAYBE, TEXT, TEXT),
        st.builds(GetSchema, MAYBE, TEXT, TEXT, TEXT),
        st.builds(GetItemData, TEXTS),
        st.builds(GetUserItemData, MAYBE, TEXTS),
        st.builds(NotifyMessage, MAYBE, TEXT, TEXT),
        st.builds(NotifyTables, MAYBE, TEXT, tables(version, False)),
        st.builds(NotifyTablesEnd, TEXT, tables(version, True)),
        st.builds(NotifyDevice, MAYBE, TEXT, DEVICES),
        st.builds(NotifyTokenChange, MAYBE, TEXT, DEVICES, TEXT),
        st.builds(NotifyActivation, MAYBE, TEXT, table(version, False, st.none()), DEVICES, MAYBE, TEXT),
    )


@given(st.data(), st.sampled_from(SUPPORTED))
def test_any_request_arrives_in_one_line_without_empty_tokens(data: st.DataObject, version: Version) -> None:
    request = data.draw(any_request(version))
    raw = encode_request("10000014c3a4a7d51", request, version)
    assert raw.endswith(b"\r\n")
    (line,) = LineReader(1_000_000).feed(raw)
    assert "" not in line.split("|")
    assert line.isascii() or version >= (1, 9, 0)
    assert parse_request(line, version) == ("10000014c3a4a7d51", request)


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert encode_request("1", SubscribeItem("a\ud800"), OLD) == b"1|SUB|S|a%3F\r\n"
    assert encode_request("1", SubscribeItem("a\ud800"), NEW) == b"1|SUB|S|a?\r\n"
