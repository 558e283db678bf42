"""The hub's end of the ways to nodes: what is told, and what was never confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.doors.tlex import nodes as module
from penstock.doors.tlex.nodes import TlexNodes
from penstock.exchange.places import Places
from penstock.wire.fabric.tlex import TlexDenied, TlexShown, decode_hub_words, encode_words
from penstock.wire.tlex.vocabulary import SecurityMode
from tests.exchange.world import World

SHOWN = encode_words([TlexShown(1, "wrong", SecurityMode.NONE, 0.0)])


class Told:
    """What nodes are told; nothing is confirmed before the test says so."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.confirm: list[Callable[[], None]] = []

    def __call__(self, node: str, words: bytes, confirmed: Callable[[], None]) -> None:
        self.told.append((node, words))
        self.confirm.append(confirmed)


async def ask(nodes: TlexNodes, times: int = 1) -> None:
    """A turn for each token that is shown."""
    for _ in range(times):
        nodes.hear("n1", SHOWN)
        await asyncio.sleep(0)


def test_what_a_turn_brings_is_told_at_its_end_and_confirmed_later() -> None:
    async def run() -> None:
        told = Told()
        nodes = TlexNodes(World().hub, Places(), told)
        nodes.came("n1", "run 1")
        await ask(nodes)
        assert [(node, decode_hub_words(words)) for node, words in told.told] == [("n1", [TlexDenied(1)])]
        assert nodes._unconfirmed
        told.confirm[0]()
        assert not nodes._unconfirmed

    asyncio.run(run())


def test_what_a_process_that_is_gone_has_not_confirmed_does_not_count_for_the_next(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        told = Told()
        nodes = TlexNodes(World().hub, Places(), told)
        monkeypatch.setattr(module, "MAX_UNCONFIRMED", 30)
        for number in range(5):
            nodes.came("n1", f"run {number}")
            await ask(nodes)
        assert not caplog.records
        await ask(nodes, 4)
        assert "does not keep up" in caplog.text
        # Late confirmations of old processes do no harm.
        for confirm in told.confirm:
            confirm()
        assert not nodes._unconfirmed

    asyncio.run(run())
