from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.testing import ari_peer
from penstock.wire.ari.errors import BadPacket
from penstock.wire.ari.lines import LineReader
from penstock.wire.ari.notifications import (
    MAX_FAST_FIELDS,
    AdapterFailure,
    AriEndOfSnapshot,
    AriUpdate,
    ClearSnapshot,
    DeclareDifferences,
    parse_unusual_update,
)
from penstock.wire.ari.packets import (
    AriKeepAlive,
    AriStream,
    Credentials,
    ForceSessionEnd,
    ForceUnsubscription,
    Packet,
    parse_packet,
)
from penstock.wire.ari.replies import (
    REPLY_PARSERS,
    AriNames,
    Done,
    ExceptionKind,
    Failed,
    Initialised,
    ItemData,
    ItemFacts,
    Reply,
    SessionAdmitted,
    TablesAdmitted,
    UserAdmitted,
    UserItemData,
    UserItemFacts,
)
from penstock.wire.ari.version import NEWEST, SUPPORTED, UNNAMED, Version
from tests.wire.reading import one_by_one, pieces

OLD = Version(1, 8, 3)
NEW = NEWEST
META, DATA = AriStream.METADATA, AriStream.DATA
REPLIES, NOTIFICATIONS = AriStream.DATA_REPLIES, AriStream.DATA_NOTIFICATIONS
ALL_MODES = ("RAW", "MERGE", "DISTINCT", "COMMAND")
CERTIFIED = "1|RAC|S|user|S|ru|S|password|S|p+w|S|enableClosePacket|S|true|S|SDK|S|Python+Adapter+SDK"

Case = tuple[str, AriStream, Version | None, Packet]

# Lines as the published SDKs write them, except for the forms of 1.9.
CASES: list[Case] = [
    ("KEEPALIVE", META, None, AriKeepAlive()),
    ("KEEPALIVE", NOTIFICATIONS, OLD, AriKeepAlive()),
    (CERTIFIED, META, None, Credentials("ru", "p w", True, "Python Adapter SDK")),
    (CERTIFIED, DATA, NEW, Credentials("ru", "p w", True, "Python Adapter SDK")),
    ("1794743665586|RAC|S|enableClosePacket|S|true", NOTIFICATIONS, None, Credentials(None, None, True, None)),
    ("1|RAC", DATA, None, Credentials(None, None, False, None)),
    ("1|RAC|S|user|S|u|S|password|S|$", REPLIES, None, Credentials("u", "", False, None)),
    # Initialisation.
    ("7|MPI|S|ARI.version|S|1.8.3", META, None, Initialised("7", "MPI", OLD, {})),
    ("7|DPI|S|ARI.version|S|1.9.1|S|x|S|a+b", DATA, None, Initialised("7", "DPI", NEW, {"x": "a b"})),
    ("7|DPI|S|ARI.version|S|1.8.2", REPLIES, None, Initialised("7", "DPI", Version(1, 8, 2), {})),
    ("7|MPI|V", META, None, Initialised("7", "MPI", UNNAMED, {})),
    ("7|MPI|EM|no+way", META, None, Failed("7", "MPI", ExceptionKind.METADATA, "no way")),
    ("7|DPI|ED|no", DATA, None, Failed("7", "DPI", ExceptionKind.DATA, "no")),
    (
        "7|DPI|E|Incompatible+Proxy+Adapter",
        DATA,
        None,
        Failed("7", "DPI", ExceptionKind.GENERIC, "Incompatible Proxy Adapter"),
    ),
    # Data.
    ("10000014c3a4a7d51|SUB|V", DATA, OLD, Done("10000014c3a4a7d51", "SUB")),
    (
        "9|SUB|EU|no+such+item%3A+a%7Cb",
        REPLIES,
        OLD,
        Failed("9", "SUB", ExceptionKind.SUBSCRIPTION, "no such item: a|b"),
    ),
    ("9|SUB|EF|x", DATA, NEW, Failed("9", "SUB", ExceptionKind.FAILURE, "x")),
    ("9|SUB|E|#", DATA, NEW, Failed("9", "SUB", ExceptionKind.GENERIC, "")),
    ("9|USB|V", DATA, OLD, Done("9", "USB")),
    ("9|USB|EU|$", DATA, OLD, Failed("9", "USB", ExceptionKind.SUBSCRIPTION, "")),
    ("5|UD3|S|i|S|9|B|1|S|f|S|v", DATA, OLD, AriUpdate(5, "i", "9", True, {"f": "v"})),
    ("5|UD3|S|i|S|9|B|0", NOTIFICATIONS, OLD, AriUpdate(5, "i", "9", False, {})),
    (
        "1794743636777|UD3|S|it%7Cem+%C3%A9|S|100000002|B|1|S|a|S|x+%2B+y%7Cz+%C3%A9+100%25|S|b|S|#|S|c|S|$|S|d|S|%23"
        "|S|e|S|%24|S|f+g|S|%0D%0A|S|bin|Y|aOlsbG8=|S|nil|Y|",
        DATA,
        OLD,
        AriUpdate(
            1794743636777,
            "it|em é",
            "100000002",
            True,
            {
                "a": "x + y|z é 100%",
                "b": None,
                "c": "",
                "d": "#",
                "e": "$",
                "f g": "\r\n",
                "bin": "héllo",
                "nil": "",
            },
        ),
    ),
    (
        "5|UD3|S|i|S|9|B|0|S|t|S|12%3A30+%C3%A9|S|n|S|#|S|e|S|$|S|h|S|#1",
        DATA,
        OLD,
        AriUpdate(5, "i", "9", False, {"t": "12:30 é", "n": None, "e": "", "h": "#1"}),
    ),
    ("5|UD3|S|é|S|9|B|0|S|ü|S|a b:c", DATA, NEW, AriUpdate(5, "é", "9", False, {"ü": "a b:c"})),
    ("5|UD3|S|i|S|9|B|0|I|0|S|f|S|v|I|1|S|g|Y|dg==", DATA, NEW, AriUpdate(5, "i", "9", False, {"f": "v", "g": "v"})),
    ("5|EOS|S|a+b|S|9", DATA, OLD, AriEndOfSnapshot(5, "a b", "9")),
    ("5|CLS|S|a+b|S|9", NOTIFICATIONS, OLD, ClearSnapshot(5, "a b", "9")),
    (
        "5|DFD|S|i|S|9|S|f|F|JM|S|g|F|#|S|h|F|$",
        DATA,
        NEW,
        DeclareDifferences(5, "i", "9", {"f": "JM", "g": None, "h": ""}),
    ),
    ("5|DFD|S|i|S|9", DATA, NEW, DeclareDifferences(5, "i", "9", {})),
    ("5|FAL|E|the+end", DATA, None, AdapterFailure("the end")),
    ("2|FAL|E|#", META, NEW, AdapterFailure("")),
    # Metadata.
    ("8|NUS|D|0.0|B|1", META, OLD, UserAdmitted("8", "NUS", 0.0, True)),
    ("8|NUA|D|1e-7|B|0", META, OLD, UserAdmitted("8", "NUA", 1e-7, False)),
    ("8|NUS|EA|go+away", META, OLD, Failed("8", "NUS", ExceptionKind.ACCESS, "go away")),
    ("8|NUS|EC|no|-7|pay+%C3%A9", META, OLD, Failed("8", "NUS", ExceptionKind.CREDITS, "no", -7, "pay é")),
    ("8|NUS|ER|busy", META, NEW, Failed("8", "NUS", ExceptionKind.RESOURCE_UNAVAILABLE, "busy")),
    ("8|NNS|V", META, OLD, SessionAdmitted("8", "NNS", None)),
    ("8|NNS|I|3600", META, NEW, SessionAdmitted("8", "NNS", 3600)),
    ("8|NNS|EX|c|-3|#|S0", META, OLD, Failed("8", "NNS", ExceptionKind.CONFLICTING_SESSION, "c", -3, None, "S0")),
    ("8|NNS|EN|x", META, OLD, Failed("8", "NNS", ExceptionKind.NOTIFICATION, "x")),
    ("8|NSC|V", META, OLD, Done("8", "NSC")),
    ("8|GIS|S|a|S|b+c", META, OLD, AriNames("8", "GIS", ("a", "b c"))),
    ("8|GIS", META, OLD, AriNames("8", "GIS", ())),
    ("8|GIS|EI|x", META, OLD, Failed("8", "GIS", ExceptionKind.ITEMS, "x")),
    ("8|GSC|S|f", META, OLD, AriNames("8", "GSC", ("f",))),
    ("8|GSC|ES|x", META, OLD, Failed("8", "GSC", ExceptionKind.SCHEMA, "x")),
    (
        "8|GIT|I|0|D|0.0|M|RMDC|I|10|D|2.5|M|$",
        META,
        OLD,
        ItemData("8", "GIT", (ItemFacts(0, 0.0, ALL_MODES), ItemFacts(10, 2.5, ()))),
    ),
    ("8|GIT", META, OLD, ItemData("8", "GIT", ())),
    ("8|GUI|I|0|D|0|M|M", META, OLD, UserItemData("8", "GUI", (UserItemFacts(0, 0.0, ("MERGE",)),))),
    ("8|NUM|V", META, OLD, Done("8", "NUM")),
    ("8|NUM|EC|denied|-5|client+msg", META, OLD, Failed("8", "NUM", ExceptionKind.CREDITS, "denied", -5, "client msg")),
    ("8|NNT|V", META, OLD, TablesAdmitted("8", "NNT", None, None)),
    ("8|NNT|B|1|B|0", META, NEW, TablesAdmitted("8", "NNT", True, False)),
    ("8|NTC|V", META, NEW, Done("8", "NTC")),
    ("8|MDA|V", META, OLD, Done("8", "MDA")),
    ("8|MDA|EC|denied|-5|client+msg", META, OLD, Failed("8", "MDA", ExceptionKind.CREDITS, "denied", -5, "client msg")),
    ("8|MDC|V", META, NEW, Done("8", "MDC")),
    ("8|MSA|V", META, OLD, Done("8", "MSA")),
    ("8|MSA|EN|x", META, NEW, Failed("8", "MSA", ExceptionKind.NOTIFICATION, "x")),
    ("100|FST|S|S1|V", META, NEW, ForceSessionEnd("100", "S1", None, None)),
    ("100|FST|S|S1|I|-4|S|a b", META, NEW, ForceSessionEnd("100", "S1", -4, "a b")),
    ("101|FUS|S|S1|I|3", META, NEW, ForceUnsubscription("101", "S1", 3)),
]

# A list of nothing, as one SDK writes it.
EMPTY_LISTS: list[Case] = [
    ("5|UD3|S|i|S|9|B|0|", NOTIFICATIONS, OLD, AriUpdate(5, "i", "9", False, {})),
    ("8|GIS|", META, OLD, AriNames("8", "GIS", ())),
    ("8|GSC|", META, OLD, AriNames("8", "GSC", ())),
    ("8|GIT|", META, OLD, ItemData("8", "GIT", ())),
    ("8|GUI|", META, OLD, UserItemData("8", "GUI", ())),
]


@pytest.mark.parametrize(("line", "stream", "version", "packet"), CASES + EMPTY_LISTS)
def test_every_packet_is_read_as_what_it_is(
    line: str, stream: AriStream, version: Version | None, packet: Packet
) -> None:
    found = parse_packet(line, stream, version)
    assert found == packet
    assert type(found) is type(packet)


def test_packets_are_the_same_in_a_stream_whole_and_byte_by_byte() -> None:
    data = "".join([f"{line}\r\n" for line, *_ in CASES]).encode()
    for sizes in ([], one_by_one(data)):
        reader = LineReader(1_000)
        lines = [line for piece in pieces(data, sizes) for line in reader.feed(piece)]
        assert [parse_packet(line, case[1], case[2]) for line, case in zip(lines, CASES, strict=True)] == [
            packet for *_, packet in CASES
        ]


@pytest.mark.parametrize("tail", ["|", "||", "|x", "|S", "|V", "|S|x|", "|S|x|S", "|#", "|E|x"])
@pytest.mark.parametrize(("line", "stream", "version", "packet"), CASES)
def test_a_packet_with_something_behind_it_is_bad_or_a_longer_one(
    line: str, stream: AriStream, version: Version | None, packet: Packet, tail: str
) -> None:
    # Where a list could begin nothing at all may stand, and after a bare method an exception.
    tokens = line.count("|") + 1
    bare = isinstance(packet, AriNames | ItemData | UserItemData) and tokens == 2
    no_list = bare or packet in (
        Credentials(None, None, False, None),
        AriUpdate(5, "i", "9", False, {}),
        DeclareDifferences(5, "i", "9", {}),
    )
    if (tail == "|" and no_list) or (tail == "|E|x" and bare):
        assert parse_packet(line + tail, stream, version) == (
            packet if tail == "|" else Failed("8", line[2:], ExceptionKind.GENERIC, "x")
        )
        return
    with pytest.raises(BadPacket) as caught:
        parse_packet(line + tail, stream, version)
    assert caught.value.method == (None if isinstance(packet, AriKeepAlive) else line.split("|")[1])


@pytest.mark.parametrize(("line", "stream", "version", "packet"), CASES)
def test_a_packet_cut_between_two_tokens_is_bad_or_a_shorter_list(
    line: str, stream: AriStream, version: Version | None, packet: Packet
) -> None:
    parts = line.split("|")
    for end in range(1, len(parts)):
        try:
            found = parse_packet("|".join(parts[:end]), stream, version)
        except BadPacket:
            continue
        assert found != packet
        assert isinstance(
            found, AriUpdate | DeclareDifferences | Credentials | AriNames | ItemData | UserItemData | Initialised
        )


@pytest.mark.parametrize("stream", AriStream)
@pytest.mark.parametrize(("line", "right", "version", "packet"), CASES)
def test_a_packet_on_the_wrong_connection_is_bad(
    line: str, right: AriStream, version: Version | None, packet: Packet, stream: AriStream
) -> None:
    method = "KEEPALIVE" if line == "KEEPALIVE" else line.split("|")[1]
    if method in stream.methods:
        assert parse_packet(line, stream, version) == packet
    else:
        with pytest.raises(BadPacket, match=f"^{method}, token 2: not expected on this connection; expected: "):
            parse_packet(line, stream, version)


def test_each_connection_has_its_methods() -> None:
    assert NOTIFICATIONS.methods == {"RAC", "KEEPALIVE", "UD3", "EOS", "CLS", "DFD", "FAL"}
    assert REPLIES.methods == {"RAC", "KEEPALIVE", "DPI", "SUB", "USB"}
    assert DATA.methods == REPLIES.methods | NOTIFICATIONS.methods
    assert META.methods == (set(REPLY_PARSERS) - {"DPI", "SUB", "USB"}) | {"RAC", "KEEPALIVE", "FAL", "FST", "FUS"}


@pytest.mark.parametrize(("line", "stream", "version", "packet"), CASES)
def test_before_a_version_is_agreed_on_little_may_come(
    line: str, stream: AriStream, version: Version | None, packet: Packet
) -> None:
    method = "KEEPALIVE" if line == "KEEPALIVE" else line.split("|")[1]
    if method in ("KEEPALIVE", "RAC", "MPI", "DPI", "FAL"):
        assert parse_packet(line, stream, None) == packet
    else:
        with pytest.raises(BadPacket, match=f"^{method}, token 2: not expected before the answer"):
            parse_packet(line, stream, None)


# -- versions ----------------------------------------------------------------------------------------------------------

NEEDS_NEW = ["8|NNS|I|60", "8|NNT|B|1|B|1", "5|DFD|S|i|S|9|S|f|F|J", "100|FST|S|S1|V", "100|FUS|S|S1|I|3"]
NEEDS_OLD = ["8|NNS|V", "8|NNT|V"]


@pytest.mark.parametrize("version", SUPPORTED)
def test_forms_differ_between_versions(version: Version) -> None:
    good, bad = (NEEDS_NEW, NEEDS_OLD) if version >= (1, 9, 0) else (NEEDS_OLD, NEEDS_NEW)
    for line in good:
        parse_packet(line, DATA if "DFD" in line else META, version)
    for line in bad:
        with pytest.raises(BadPacket):
            parse_packet(line, DATA if "DFD" in line else META, version)


def test_a_packet_of_a_later_version_is_told_as_such_with_its_request() -> None:
    with pytest.raises(BadPacket) as caught:
        parse_packet("100|FST|S|S1|V", META, OLD)
    assert str(caught.value) == "FST, token 2: not in version 1.8.3, only since 1.9.0"
    assert caught.value.request == "100"


# -- what is wrong -----------------------------------------------------------------------------------------------------

BAD: list[tuple[str, AriStream, str]] = [
    ("", DATA, "A packet: an empty line"),
    ("GET / HTTP/1.1", DATA, "A packet: only one token, which is not KEEPALIVE"),
    ("UD3", DATA, "A packet: only one token, which is not KEEPALIVE"),
    ("keepalive", DATA, "A packet: only one token, which is not KEEPALIVE"),
    ("1|", DATA, "A packet, token 2: not a method"),
    ("1|secret word", DATA, "A packet, token 2: not a method"),
    ("|SUB|V", DATA, "SUB, token 1: empty"),
    ("5|UD1|S|i|S|9", NOTIFICATIONS, "UD1, token 2: not expected on this connection; expected: CLS, DFD, EOS, FAL"),
    ("|UD3|S|i|S|9|B|0", DATA, "UD3, token 1: expected a time in milliseconds"),
    ("-5|UD3|S|i|S|9|B|0", DATA, "UD3, token 1: expected a time in milliseconds"),
    ("\u0665|UD3|S|i|S|9|B|0", DATA, "UD3, token 1: expected a time in milliseconds"),
    ("9" * 5_000 + "|UD3|S|i|S|9|B|0", DATA, "UD3, token 1: expected a time in milliseconds"),
    ("5|UD3", DATA, "UD3, token 3: missing, expected type S"),
    ("5|UD3|S|i|S|9|B|2", DATA, "UD3, token 8: expected 0 or 1"),
    ("5|UD3|S|#|S|9|B|0", DATA, "UD3, token 4: null or empty, expected a name"),
    ("5|UD3|S|i|S|$|B|0", DATA, "UD3, token 6: null or empty, expected a name"),
    ("5|UD3|S||S|9|B|0", DATA, "UD3, token 4: empty"),
    ("5|UD3|S|i|S|9|B|0|S|f", DATA, "UD3, token 11: missing, expected type S"),
    ("5|UD3|S|i|S|9|B|0|S|f|S|", DATA, "UD3, token 12: empty"),
    ("5|UD3|S|i|S|9|B|0|S|f|S||S|g|S|v", DATA, "UD3, token 12: empty"),
    ("5|UD3|S|i|S|9|B|0|S|f|S|v|", DATA, "UD3, token 13: expected type S"),
    ("5|UD3|S|i|S|9|B|0|S|#|S|v", DATA, "UD3, token 10: null or empty, expected a name"),
    ("5|UD3|S|i|S|9|B|0|S|f|I|5", DATA, "UD3, token 11: expected type S"),
    ("5|UD3|S|i|S|9|B|0|%53|f|S|v", DATA, "UD3, token 9: expected type S"),
    ("5|UD3|S|i|S|9|B|0|S|f|S|v|S|f|S|w", DATA, "UD3, token 14: a field that was there before"),
    ("5|UD3|S|i|S|9|B|0|S|f|S|v|S|%66|S|w", DATA, "UD3, token 14: a field that was there before"),
    ("5|UD3|S|i|S|9|B|0|S|f|S|5%", DATA, "UD3, token 12: the percent sign at char"),
    ("5|UD3|S|i|S|9|B|0|S|f|S|%C3", DATA, "UD3, token 12: the escapes are not valid UTF-8"),
    ("5|UD3|S|i|S|9|B|0|S|f|Y|a", DATA, "UD3, token 12: expected Base64"),
    ("x|EOS|S|i|S|9", DATA, "EOS, token 1: expected a time in milliseconds"),
    ("5|EOS|S|i", DATA, "EOS, token 5: missing, expected type S"),
    ("5|DFD|S|i|S|9|S|f|F|J|S|f|F|J", DATA, "DFD, token 12: a field that was there before"),
    ("5|FAL|EM|x", DATA, "FAL, token 3: expected type E"),
    ("8|NUS|EC|x|None|#", META, "NUS, token 5: expected an integer"),
    ("8|NUS|EC|x|-1", META, "NUS, token 6: missing"),
    ("8|NUS|EC|x|-1|m|s", META, "NUS, token 7: unexpected, the packet should have ended"),
    ("8|NUS|EZ|x", META, "NUS, token 3: expected type D"),
    ("8|NUS|D|inf|B|1", META, "NUS, token 4: expected a decimal number"),
    ("8|GIS|S|a|S|$", META, "GIS, token 6: null or empty, expected a name"),
    ("8|GIT|I|0|D|0|M|X", META, "GIT, token 8: expected some of the letters R, M, D and C, each once"),
    ("8|MPI|S|x|S|y", META, "MPI, token 7: no ARI.version before here that is spoken; expected one of 1.8.2, 1.8.3, 1"),
    ("8|MPI|S|ARI.version|S|1.8.1", META, "MPI, token 7: no ARI.version before here that is spoken"),
    ("8|MPI|S|ARI.version|S|2.0.0", META, "MPI, token 7: no ARI.version before here that is spoken"),
    ("x|RAC|S|user|S|u", META, "RAC, token 1: expected a time in milliseconds"),
    ("1|RAC|S|password|S|secret|S|password|S|secret", META, "RAC, token 8: a parameter that was there before"),
    ("1|RAC|S|password|S|secret%", META, "RAC, token 6: the percent sign"),
    ("1|RAC|S|password|secret", META, "RAC, token 5: expected type S"),
    ("1|RAC|password|secret", META, "RAC, token 3: expected type S"),
    ("1|secret", META, "A packet, token 2: not a method"),
]


@pytest.mark.parametrize(("line", "stream", "message"), BAD)
def test_what_cannot_be_understood_is_told_with_method_and_place(line: str, stream: AriStream, message: str) -> None:
    version = None if "MPI" in line else NEW
    with pytest.raises(BadPacket) as caught:
        parse_packet(line, stream, version)
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_bad_answer_tells_which_request_has_failed() -> None:
    with pytest.raises(BadPacket) as caught:
        parse_packet("8|NUS|EC|x|undefined|undefined", META, OLD)
    assert caught.value.request == "8"


def test_a_password_is_not_shown() -> None:
    assert "p w" not in repr(parse_packet(CERTIFIED, META, None))


@given(st.text(st.sampled_from("|S#$%BIDMEYV0159af:+é"), max_size=60), st.sampled_from([*AriStream]))
def test_whatever_comes_is_a_packet_or_bad(tail: str, stream: AriStream) -> None:
    for method in sorted(stream.methods):
        for version in (None, OLD, NEW):
            try:
                parse_packet(f"5|{method}|{tail}", stream, version)
            except BadPacket as error:
                assert str(error)  # noqa: PT017


def outcome(line: str, slow: bool) -> Packet | str:
    try:
        return parse_unusual_update(line.split("|")) if slow else parse_packet(line, DATA, OLD)
    except BadPacket as error:
        return str(error)


UPDATE = ["5", "UD3", "S", "i", "S", "9", "B", "0", "S", "f", "S", "v", "S", "g", "S", "w"]
TOKENS = [
    "S",
    "B",
    "Y",
    "I",
    "0",
    "1",
    "#",
    "$",
    "",
    "f",
    "g",
    "é",
    "%3A",
    "%7C",
    "%23",
    "%24",
    "%C3%A9",
    "%C3",
    "%",
    "+",
]


@given(st.lists(st.tuples(st.integers(0, 15), st.lists(st.sampled_from(TOKENS), min_size=1, max_size=2)), max_size=4))
def test_the_fast_way_and_the_slow_way_never_differ(changes: list[tuple[int, list[str]]]) -> None:
    tokens = list(UPDATE)
    for place, texts in changes:
        if place != 1:
            tokens[place] = "".join(texts)
    line = "|".join(tokens)
    assert outcome(line, slow=False) == outcome(line, slow=True)


@given(st.lists(st.sampled_from([*TOKENS, "S|f|S|v", "S|g|S|#", "S|a+b|S|%25", "S|h|Y|dg=="]), max_size=6))
def test_the_fast_way_and_the_slow_way_never_differ_on_any_tail(tail: list[str]) -> None:
    line = "|".join(["5|UD3|S|i|S|9|B|1", *tail])
    assert outcome(line, slow=False) == outcome(line, slow=True)


# -- round trips -------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from("#$|%+ \r\n:é😀a"))
NAME = TEXT.filter(bool)
VERSIONS = st.sampled_from(SUPPORTED)


def line_of(data: bytes) -> str:
    (line,) = LineReader(1_000_000).feed(data)
    return line


@given(
    st.integers(0, 10**15), NAME, NAME, st.booleans(), st.dictionaries(NAME, st.none() | TEXT | st.binary()), VERSIONS
)
def test_any_update_comes_back(
    time: int, item: str, subscription: str, snapshot: bool, fields: dict[str, str | bytes | None], version: Version
) -> None:
    line = line_of(ari_peer.update(time, item, subscription, snapshot, fields, version))
    expected = {name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in fields.items()}
    assert parse_packet(line, DATA, version) == AriUpdate(time, item, subscription, snapshot, expected)


@pytest.mark.parametrize("count", [0, 1, 10, MAX_FAST_FIELDS, MAX_FAST_FIELDS + 1, 1_000])
def test_an_update_may_have_any_number_of_fields(count: int) -> None:
    fields: dict[str, str | bytes | None] = {f"field {number}": f"{number}:00" for number in range(count)}
    for version in (OLD, NEW):
        line = line_of(ari_peer.update(5, "i", "9", False, fields, version))
        assert parse_packet(line, DATA, version) == AriUpdate(5, "i", "9", False, dict(fields))  # type: ignore[arg-type]


@given(NAME, NAME, st.dictionaries(NAME, st.sampled_from([None, "", "J", "M", "JM", "MJ"])), TEXT, VERSIONS)
def test_any_other_notification_comes_back(
    item: str, subscription: str, orders: dict[str, str | None], message: str, version: Version
) -> None:
    line = line_of(ari_peer.end_of_snapshot(5, item, subscription, version))
    assert parse_packet(line, DATA, version) == AriEndOfSnapshot(5, item, subscription)
    line = line_of(ari_peer.clear_snapshot(5, item, subscription, version))
    assert parse_packet(line, DATA, version) == ClearSnapshot(5, item, subscription)
    line = line_of(ari_peer.declare_differences(5, item, subscription, orders, NEW))
    assert parse_packet(line, DATA, NEW) == DeclareDifferences(5, item, subscription, orders)
    assert parse_packet(line_of(ari_peer.failure("5", message, version)), DATA, version) == AdapterFailure(message)


MODES = st.lists(st.sampled_from(ALL_MODES), unique=True).map(tuple)
INTEGERS = st.integers(-(2**31), 2**31)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
IDS = st.text(st.sampled_from("0123456789abcdef"), min_size=1)


def replies(version: Version) -> st.SearchStrategy[Reply]:
    rich = version >= (1, 9, 0)
    wish = st.booleans() if rich else st.none()
    simple = st.sampled_from(
        [kind for kind in ExceptionKind if kind not in (ExceptionKind.CREDITS, ExceptionKind.CONFLICTING_SESSION)]
    )
    methods = st.sampled_from(sorted(META.methods & set(REPLY_PARSERS)))
    return st.one_of(
        st.builds(Done, IDS, st.sampled_from(["NSC", "NUM", "NTC", "MDA", "MDC", "MSA"])),
        st.builds(Failed, IDS, methods, simple, TEXT),
        st.builds(Failed, IDS, methods, st.just(ExceptionKind.CREDITS), TEXT, INTEGERS, st.none() | TEXT),
        st.builds(
            Failed,
            IDS,
            methods,
            st.just(ExceptionKind.CONFLICTING_SESSION),
            TEXT,
            INTEGERS,
            st.none() | TEXT,
            st.none() | TEXT,
        ),
        st.builds(UserAdmitted, IDS, st.sampled_from(["NUS", "NUA"]), FLOATS, st.booleans()),
        st.builds(SessionAdmitted, IDS, st.just("NNS"), INTEGERS if rich else st.none()),
        st.builds(AriNames, IDS, st.sampled_from(["GIS", "GSC"]), st.lists(NAME).map(tuple)),
        st.builds(ItemData, IDS, st.just("GIT"), st.lists(st.builds(ItemFacts, INTEGERS, FLOATS, MODES)).map(tuple)),
        st.builds(
            UserItemData, IDS, st.just("GUI"), st.lists(st.builds(UserItemFacts, INTEGERS, FLOATS, MODES)).map(tuple)
        ),
        st.builds(TablesAdmitted, IDS, st.just("NNT"), wish, wish),
    )


@given(st.data(), VERSIONS)
def test_any_answer_comes_back(data: st.DataObject, version: Version) -> None:
    reply = data.draw(replies(version))
    assert parse_packet(line_of(ari_peer.encode_reply(reply, version)), META, version) == reply


@given(IDS, VERSIONS | st.just(UNNAMED), st.dictionaries(NAME, st.none() | TEXT))
def test_any_initialisation_comes_back(request: str, version: Version, parameters: dict[str, str | None]) -> None:
    parameters.pop("ARI.version", None)
    reply = Initialised(request, "DPI", version, {} if version == UNNAMED else parameters)
    assert parse_packet(line_of(ari_peer.encode_reply(reply, version)), DATA, None) == reply


@given(st.none() | TEXT, st.none() | TEXT, st.booleans(), st.none() | TEXT)
def test_any_credentials_come_back(user: str | None, password: str | None, close: bool, sdk: str | None) -> None:
    given = Credentials(user, password, close, sdk)
    assert ari_peer.credentials(given).isascii()
    assert parse_packet(line_of(ari_peer.credentials(given)), META, None) == given


@given(NAME, st.none() | st.tuples(INTEGERS, st.none() | TEXT), INTEGERS)
def test_any_request_of_an_adapter_comes_back(session: str, outcome: tuple[int, str | None] | None, table: int) -> None:
    code, message = (None, None) if outcome is None else outcome
    end = ForceSessionEnd("100", session, code, message)
    assert parse_packet(line_of(ari_peer.force(end, NEW)), META, NEW) == end
    unsubscription = ForceUnsubscription("101", session, table)
    assert parse_packet(line_of(ari_peer.force(unsubscription, NEW)), META, NEW) == unsubscription
