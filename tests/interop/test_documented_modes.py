"""The tables of docs/modes.md, played: what a data adapter publishes, and what two clients see of it.

The programs of that page are run by `test_documented_clients`.
"""

from __future__ import annotations

import re

import pytest

from penstock.client.events import Update
from penstock.kernel.item import Mode
from penstock.testing import Harness, Peer
from penstock.wire.tlcp.differences import DifferenceEncoder
from penstock.wire.tlcp.values import decode_values
from tests.interop.libraries import REPOSITORY

PAGE = (REPOSITORY / "docs/modes.md").read_text()
PAUSE = "*a second passes*"

# As configured by default: session.jsonpatch_min_length.
SHORTEST_VALUE = 50


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no section {title}"
    return found[1]


def table(text: str) -> list[list[str]]:
    """The rows of the only table, without its head."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert set(rows[1]) == {"---"}
    return rows[2:]


def shown(peer: Peer) -> str:
    """What the client has been told since it was last asked, as the page writes it."""
    updates = [event for event in peer.receive() if isinstance(event, Update)]
    return ", ".join(" ".join("null" if value is None else value for value in update.values) for update in updates)


@pytest.mark.parametrize("mode", Mode)
def test_the_example_of_each_mode_is_what_happens(mode: Mode) -> None:
    text = section(mode.value)
    found = re.search(r"Fields:\s`([^`]+)`", text)
    assert found is not None
    harness = Harness(snapshots=False)
    quick, limited = Peer(harness), Peer(harness)
    for peer, frequency in ((quick, None), (limited, 1.0)):
        peer.open()
        peer.subscribe("item", found[1], mode, max_frequency=frequency)
    for number, (event, *expected) in enumerate(table(text), start=1):
        if event == PAUSE:
            harness.advance(1)
        else:
            harness.publish("item", **dict(field.split("=") for field in event.split()))
        assert [shown(quick), shown(limited)] == expected, f"row {number}: {event}"
    harness.advance(10)
    assert [shown(quick), shown(limited)] == ["", ""]


@pytest.mark.parametrize("row", table(section("Differences")), ids=lambda row: row[0])
def test_the_example_of_each_difference_is_what_is_sent(row: list[str]) -> None:
    order, before, after, sent = (cell.strip("`") for cell in row)
    encoder = DifferenceEncoder(order, SHORTEST_VALUE)
    assert encoder.encode([after], [before], [order], 0)[0] == sent
    assert decode_values(sent, [before], 1) == (after,)
