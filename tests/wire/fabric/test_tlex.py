"""Words between a TLEX hub and its nodes: what is written is read, and nothing else is."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.fabric.messages import FabricError
from penstock.wire.fabric.tlex import (
    HubWord,
    NodeWord,
    TlexAdmitted,
    TlexDelivered,
    TlexDenied,
    TlexDismissed,
    TlexFigures,
    TlexLeaving,
    TlexLeft,
    TlexLimits,
    TlexMeasured,
    TlexOffered,
    TlexPublished,
    TlexReconnected,
    TlexShown,
    TlexWithdrawn,
    decode_hub_words,
    decode_node_words,
    encode_words,
)
from penstock.wire.tlex.vocabulary import EndReason, Protocol, SecurityMode, SessionType

FIGURES = TlexFigures(1, 2, 3, 0.5, None, None, 1_700_000_000_000)
LIMITS = TlexLimits(5.0, 3_000, 60.0, 12, 5.0, 60, 5.0, 100)

OF_NODES: list[NodeWord] = [
    TlexOffered("n1.example", 8090, None),
    TlexWithdrawn(),
    TlexShown(1, "token", SecurityMode.TLS, 0.25),
    TlexPublished("id", [b"\xaa\xbb", b""]),
    TlexMeasured({"id": FIGURES}),
    TlexLeaving("id"),
    TlexLeft("id", EndReason.CLIENT_DISCONNECT, FIGURES),
    TlexLeft("id", EndReason.CONNECTION_ERROR, None),
]
OF_HUBS: list[HubWord] = [
    TlexAdmitted(1, "id", SessionType.BROKER, Protocol.MULTIPLEX, LIMITS),
    TlexDenied(1),
    TlexDelivered(["one", "two"], [b"\xaa\xbb"]),
    TlexDismissed("id", "DELETED", ""),
    TlexReconnected("id", "SHUTDOWN"),
]


def test_words_are_read_as_they_were_written_and_in_their_order() -> None:
    assert decode_node_words(encode_words(OF_NODES)) == OF_NODES
    assert decode_hub_words(encode_words(OF_HUBS)) == OF_HUBS


def test_words_of_one_side_are_none_of_the_other() -> None:
    with pytest.raises(FabricError, match="words of a TLEX node"):
        decode_node_words(encode_words(OF_HUBS))
    with pytest.raises(FabricError, match="words of a TLEX hub"):
        decode_hub_words(encode_words(OF_NODES))


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused_as_documented(data: bytes) -> None:
    for decode in (decode_node_words, decode_hub_words):
        with suppress(FabricError):
            decode(data)


@given(st.integers(0, 10_000), st.binary(max_size=4))
def test_words_with_a_fault_are_refused_as_documented(at: int, replacement: bytes) -> None:
    whole = encode_words(OF_NODES)
    at %= len(whole)
    with suppress(FabricError):
        decode_node_words(whole[:at] + replacement + whole[at + 1 :])
