"""Many histories of things that change seldom, while the journal has much else in the file that is being written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import httpx

from penstock.journal.journal import Policy
from penstock.journal.record import Columns
from penstock.journal.segment import SEGMENT_SUFFIX
from tests.doors.ditto.site import Site
from tests.doors.ditto.test_websocket import basic, client
from tests.doors.ditto.world import kind, streaming

STREAMS = 100
# Commits with other things in them. To look through them all takes a sixth of a second of processor, for each history.
COMMITS = 10_000


def fill(site: Site) -> None:
    """A commit for each record, as from things that are changed one by one."""
    assert site.server.gatherer is not None
    journal = site.server.gatherer.journal
    journal.settings = replace(journal.settings, group_bytes=1)
    for number in range(COMMITS):
        columns = Columns()
        columns.add(f"SITE/SENSORS/noise-{number % 500}", 1_700_000_000_000_000, "update", "", '{"x":"1"}')
        journal.append(columns, Policy.OFF)
    journal.flush().result(60)


def test_a_hundred_histories_of_sparse_things_are_streamed_at_once(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        alice: httpx.Client = site.of("alice")
        names = [f"ns:sparse-{number}" for number in range(STREAMS)]
        for name in names:
            assert alice.put(f"/things/{name}", json={"attributes": {"n": 1}}).status_code == 201
        fill(site)
        for name in names:
            assert alice.put(f"/things/{name}/attributes/n", json=2).status_code == 204
        assert len(list((tmp_path / "data" / "journal").glob(f"*{SEGMENT_SUFFIX}"))) == 1
        with client(site, basic("alice")) as socket:
            for name in names:
                socket.send(streaming(name, "subscribeForPersistedEvents"))
            for _ in names:
                assert kind(socket.hear()) == "created"
            for number, name in enumerate(names):
                socket.request(str(number), 10, name)
            found: dict[str, list[int]] = {}
            ended: list[str] = []
            while len(ended) < STREAMS:
                message = socket.hear()
                value = message["value"]
                if kind(message) == "next":
                    found.setdefault(value["subscriptionId"], []).append(value["item"]["revision"])
                else:
                    assert kind(message) == "complete", json.dumps(message)
                    ended.append(value["subscriptionId"])
        assert found == {str(number): [1, 2] for number in range(STREAMS)}
