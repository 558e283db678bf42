"""A kernel with very many sessions and items, for tests of what it costs to look at all of them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.kernel.connection import Binding
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import ClientFacts
from penstock.testing.channel import MemoryChannel
from penstock.testing.hands import HandHandler, HandSource
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import NEWEST

MANY = 10_000


def fill(kernel: Kernel, adapter_sets: Sequence[str]) -> None:
    """As many sessions, of all these sets, as items, of a feed of the first."""
    codec = TlcpCodec(NEWEST)
    for number in range(MANY):
        session = kernel.open_session(codec, HandHandler())
        session.adapter_set = adapter_sets[number % len(adapter_sets)]
        session.client = ClientFacts("", False, {}, library="nodejs_client")
        session.touch()
        session.bind(MemoryChannel(), Binding(polling=number % 2 == 0), [])
    source = HandSource(False)
    feed = source.feed = kernel.add_feed(adapter_sets[0], "FEED", source)
    for number in range(MANY):
        feed.pin(f"item{number}")
