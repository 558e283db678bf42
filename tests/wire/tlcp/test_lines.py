from __future__ import annotations

import inspect
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.numbers import decimal
from penstock.wire.tlcp import lines
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import NEWEST, SUPPORTED, Version

# What every line would do to a client that splits at commas and ends of lines.
NASTY = "a,b%2C\r\nU,1,1,x|y"
TEXT = st.text(st.one_of(st.sampled_from("%,\r\n|"), st.characters(exclude_categories=["Cs"])), max_size=20)

OLD = TlcpCodec(Version(2, 4))
NEW = TlcpCodec(Version(2, 5))

# Tag, number of arguments by the specification, and a line of it with the nastiest argument that it can carry.
LINES = [
    ("CONOK", 4, lines.conok("S,1", 50_000, 5_000, NASTY)),
    ("CONERR", 2, lines.conerr(2, NASTY)),
    ("END", 2, lines.end(31, NASTY)),
    ("END", 2, OLD.end(-5, NASTY)),
    ("REQOK", 1, lines.reqok("7")),
    ("REQOK", 0, lines.HEARTBEAT_OK),
    ("REQERR", 3, lines.reqerr("7", 19, NASTY)),
    ("ERROR", 2, lines.error(67, NASTY)),
    ("WSOK", 0, lines.WSOK),
    ("SERVNAME", 1, lines.line("SERVNAME", NASTY)),
    ("CLIENTIP", 1, lines.line("CLIENTIP", "fe80::1%eth0")),
    ("U", 3, OLD.update_prefix(3, 1) + OLD.update_body(("plain", None), None, (), 0)[0]),
    ("SUBOK", 3, OLD.subscribed(3, 1, 10)),
    ("SUBCMD", 5, OLD.subscribed_command(3, 1, 10, 1, 2)),
    ("UNSUB", 1, OLD.unsubscribed(3)),
    ("CONF", 3, OLD.configured(3, 3.0, True)),
    ("EOS", 2, OLD.end_of_snapshot(3, 1)),
    ("CS", 2, OLD.snapshot_cleared(3, 1)),
    ("OV", 3, OLD.overflow(3, 1, 5)),
    ("MSGDONE", 2, OLD.message_done("Orders_Sequence", 3, NASTY)),
    ("MSGDONE", 3, NEW.message_done("Orders_Sequence", 3, NASTY)),
    ("MSGFAIL", 4, OLD.message_failed("Orders_Sequence", 4, 38, NASTY)),
    ("MPNREG", 2, lines.mpnreg(NASTY, NASTY)),
    ("MPNZERO", 1, lines.mpnzero(NASTY)),
    ("MPNOK", 2, lines.mpnok(3, NASTY)),
    ("MPNCONF", 1, lines.mpnconf(NASTY)),
    ("MPNDEL", 1, lines.mpndel(NASTY)),
    ("CONS", 1, OLD.constrained(50.0, True)),
    ("SYNC", 1, OLD.synchronized(120)),
    ("PROG", 1, OLD.recovering(24_576)),
    ("NOOP", 1, lines.NOOP),
    ("PROBE", 0, OLD.probe()),
    ("LOOP", 1, OLD.loop(5_000)),
]


@pytest.mark.parametrize(("tag", "count", "line"), LINES)
def test_every_tag_has_its_number_of_arguments_whatever_they_hold(tag: str, count: int, line: bytes) -> None:
    text = line.decode()
    assert text.endswith("\r\n")
    assert "\r" not in text[:-2]
    assert "\n" not in text[:-2]
    name, *arguments = text[:-2].split(",")
    assert name == tag
    assert len(arguments) == count


def test_the_first_four_characters_of_a_tag_are_unique_and_none_is_longer_than_eight() -> None:
    tags = {tag for tag, _, _ in LINES}
    assert len({tag[:4] for tag in tags}) == len(tags)
    assert all(len(tag) <= 8 and tag.isascii() and tag.isupper() for tag in tags)


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        (lines.conok("S73d162c183916f0dT2729905", 50_000, 5_000, ""), "CONOK,S73d162c183916f0dT2729905,50000,5000,*"),
        (lines.conerr(2, "Requested Adapter Set not available"), "CONERR,2,Requested Adapter Set not available"),
        (lines.end(8, "Session count limit reached"), "END,8,Session count limit reached"),
        (lines.reqok("1"), "REQOK,1"),
        (lines.HEARTBEAT_OK, "REQOK"),
        (
            lines.error(68, "Internal error during request processing"),
            "ERROR,68,Internal error during request processing",
        ),
        (lines.reqerr("3", 19, "Specified subscription not found"), "REQERR,3,19,Specified subscription not found"),
        (OLD.subscribed(3, 1, 10), "SUBOK,3,1,10"),
        (OLD.unsubscribed(3), "UNSUB,3"),
        (OLD.end_of_snapshot(3, 1), "EOS,3,1"),
        (OLD.overflow(3, 1, 5), "OV,3,1,5"),
        (OLD.configured(3, 3.0, True), "CONF,3,3.0,filtered"),
        (OLD.configured(3, None, False), "CONF,3,unlimited,unfiltered"),
        (OLD.message_done("Orders_Sequence", 3, ""), "MSGDONE,Orders_Sequence,3"),
        (
            OLD.message_failed(
                "Orders_Sequence", 4, 38, "The specified progressive number has been skipped by timeout"
            ),
            "MSGFAIL,Orders_Sequence,4,38,The specified progressive number has been skipped by timeout",
        ),
        (
            lines.mpnreg("8c1eaa79-acd1-4cb4-b2a7-3b62bb449798", "MPN_INTERNAL_DATA_ADAPTER"),
            "MPNREG,8c1eaa79-acd1-4cb4-b2a7-3b62bb449798,MPN_INTERNAL_DATA_ADAPTER",
        ),
        (lines.mpnzero("8c1eaa79-acd1-4cb4-b2a7-3b62bb449798"), "MPNZERO,8c1eaa79-acd1-4cb4-b2a7-3b62bb449798"),
        (lines.mpnok(1, "518443d9-b8a5-459d-ae23-caaa62b4da7a"), "MPNOK,1,518443d9-b8a5-459d-ae23-caaa62b4da7a"),
        # Its example has an empty argument more than its format; clients go by the format.
        (lines.mpnconf("af9fbcf1-7d03-4bb5-9712-59a28d12d22a"), "MPNCONF,af9fbcf1-7d03-4bb5-9712-59a28d12d22a"),
        (lines.mpndel("af9fbcf1-7d03-4bb5-9712-59a28d12d22a"), "MPNDEL,af9fbcf1-7d03-4bb5-9712-59a28d12d22a"),
        (OLD.constrained(50.0, True), "CONS,50"),
        (OLD.constrained(None, True), "CONS,unlimited"),
        (OLD.constrained(None, False), "CONS,unmanaged"),
        (OLD.synchronized(120), "SYNC,120"),
        (lines.line("CLIENTIP", "127.0.0.1"), "CLIENTIP,127.0.0.1"),
        (lines.line("CLIENTIP", "::1"), "CLIENTIP,::1"),
        (lines.line("SERVNAME", "Lightstreamer HTTP Server"), "SERVNAME,Lightstreamer HTTP Server"),
        (OLD.recovering(24_576), "PROG,24576"),
        (lines.NOOP, "NOOP,sending placeholder data"),
        (OLD.probe(), "PROBE"),
        (OLD.loop(5_000), "LOOP,5000"),
    ],
)
def test_lines_are_printed_as_in_the_examples_of_the_specification(line: bytes, printed: str) -> None:
    assert line.decode() == printed + "\r\n"


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_any_arguments_come_back_by_splitting_at_commas_and_percent_decoding(arguments: list[str]) -> None:
    text = lines.line("TAG", *arguments).decode()
    assert text.endswith("\r\n")
    assert text.count("\n") == 1
    assert [unquote(part) for part in text[:-2].split(",")[1:]] == arguments


def test_only_what_would_break_a_line_is_escaped() -> None:
    assert lines.argument("é / ? & = + # $ ^ | 'x'") == "é / ? & = + # $ ^ | 'x'"
    assert lines.argument("a,b%\r\n") == "a%2Cb%25%0D%0A"


def test_half_of_a_surrogate_pair_becomes_a_question_mark_instead_of_an_exception() -> None:
    assert lines.line("CONERR", 1, "a\ud800b") == b"CONERR,1,a?b\r\n"
    assert OLD.update_body(("\udc00",), None, (), 0) == (b"?\r\n", 0)


def test_refused_names_the_request_when_it_can() -> None:
    assert lines.refused("5", 65, "no") == b"REQERR,5,65,no\r\n"
    assert lines.refused(None, 67, "no") == b"ERROR,67,no\r\n"


@pytest.mark.parametrize(
    ("number", "least", "text"),
    [
        (3.0, 1, "3.0"),
        (3.0, 0, "3"),
        (100.0, 0, "100"),
        (0.5, 0, "0.5"),
        (2.25, 1, "2.25"),
        (1234567.0, 0, "1234567"),
        (1e15, 0, "1000000000000000"),
        (0.1 + 0.2, 0, "0.3"),
        (1 / 3, 1, "0.333333"),
    ],
)
def test_numbers_are_written_without_exponents(number: float, least: int, text: str) -> None:
    assert decimal(number, least) == text


def test_every_version_has_a_codec_and_only_the_newest_answers_messages_with_a_response() -> None:
    for version in SUPPORTED:
        codec = TlcpCodec(version)
        expected = b"MSGDONE,*,1,fine\r\n" if version == NEWEST else b"MSGDONE,*,1\r\n"
        assert codec.message_done(None, 1, "fine") == expected
        assert codec.message_failed(None, 1, -3, "bad") == b"MSGFAIL,*,1,-3,bad\r\n"


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_codec_sends_differences_from_2_4_on_whatever_it_is_made_with(version: Version) -> None:
    before = '{"text": "a long text that hardly ever changes, not even now", "n": 1}'
    body, _ = TlcpCodec(version, "PT").update_body((before.replace("1", "2"),), (before,), ("PT",), 0)
    assert body.startswith(b"^P") == (version >= (2, 4))


def test_an_update_is_a_prefix_per_subscription_and_a_body_that_subscriptions_share() -> None:
    body, _ = NEW.update_body(("a|b", None, "", "é"), ("a|b", None, None, "e"), (), 0)
    assert NEW.update_prefix(12, 3) + body == "U,12,3,||$|é\r\n".encode()


@pytest.mark.parametrize("size", [0, 1, 30, 31, 32, 2048])
def test_padding_is_whole_lines_of_at_least_the_size_asked_for(size: int) -> None:
    padding = NEW.padding(size)
    assert size <= len(padding) < size + len(lines.NOOP)
    assert padding == lines.NOOP * (len(padding) // len(lines.NOOP))


def test_the_codec_has_a_line_for_every_event_that_is_tested_here() -> None:
    """A new kind of line needs a row in the table above."""
    events = {name for name, _ in inspect.getmembers(TlcpCodec, inspect.isroutine) if not name.startswith("_")}
    assert events == {
        "configured",
        "constrained",
        "end",
        "end_of_snapshot",
        "loop",
        "message_done",
        "message_failed",
        "overflow",
        "padding",
        "probe",
        "recovering",
        "snapshot_cleared",
        "subscribed",
        "subscribed_command",
        "synchronized",
        "unsubscribed",
        "update_body",
        "update_prefix",
    }
