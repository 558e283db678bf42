"""kill -9 while things are written: every change that was acknowledged is there, once, and no revision is missing."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import httpx
import pytest

from tests.support.process import ServerProcess

KILLS = 50 if os.environ.get("PENSTOCK_PROFILE") == "long" else 5
WRITERS = 4

# Changes that are acknowledged before the server is killed, by all writers together: a few more than in the last round,
# so that kills come at ever other moments.
FIRST_CHANGES = 20
MORE_CHANGES = 7

LONG = 30.0


class Writer:
    """Counts one attribute up, and remembers what was acknowledged."""

    def __init__(self, number: int) -> None:
        self.path = f"/things/crash:thing{number}"
        # By revision: the value that was acknowledged with it.
        self.acknowledged: dict[int, int] = {}
        self.sent = 0
        # One whose answer never came may have happened, or not.
        self.unknown: set[int] = set()

    def write(self, client: httpx.Client, done: threading.Semaphore) -> None:
        """Until the server is gone."""
        while True:
            self.sent += 1
            self.unknown.add(self.sent)
            try:
                answer = client.patch(
                    self.path,
                    content=json.dumps({"attributes": {"n": self.sent}}),
                    headers={"content-type": "application/merge-patch+json"},
                )
            except httpx.TransportError:
                return
            assert answer.status_code in (201, 204), answer.text
            self.unknown.discard(self.sent)
            revision = int(answer.headers["etag"].strip('"').removeprefix("rev:"))
            assert revision not in self.acknowledged
            self.acknowledged[revision] = self.sent
            done.release()

    def check(self, client: httpx.Client) -> None:
        """What the journal has is what was acknowledged, and perhaps what was under way."""
        answer = client.get(self.path, params={"from-historical-revision": 1}, headers={"accept": "text/event-stream"})
        if not self.acknowledged and answer.status_code == 404:
            return
        assert answer.status_code == 200, answer.text
        events = [
            json.loads(line.removeprefix("data:")) for line in answer.text.split("\n\n") if line not in ("", "data:")
        ]
        assert [event["_revision"] for event in events] == list(range(1, len(events) + 1))
        values = [event["attributes"]["n"] for event in events]
        assert len(set(values)) == len(values)
        assert values == sorted(values)
        for revision, value in self.acknowledged.items():
            assert values[revision - 1] == value
        assert set(values) - set(self.acknowledged.values()) <= self.unknown
        now = client.get(self.path, params={"fields": "attributes/n,_revision"}).json()
        assert now == {"attributes": {"n": values[-1]}, "_revision": len(events)}
        # The search index was killed as well: it proposes neither too little nor, in the end, what was.
        assert self._is_found(client, values[-1])
        assert len(values) == 1 or not self._is_found(client, values[-2])

    def _is_found(self, client: httpx.Client, value: int) -> bool:
        asked = {"filter": f"eq(attributes/n,{value})", "namespaces": "crash", "fields": "thingId"}
        items = client.get("/search/things", params=asked).json()["items"]
        return {"thingId": self.path.removeprefix("/things/")} in items


def client_of(process: ServerProcess) -> httpx.Client:
    base = f"http://127.0.0.1:{process.api_port}/api/2"
    return httpx.Client(base_url=base, auth=("ditto", "ditto"), timeout=LONG)


@pytest.mark.timeout(60 + 20 * KILLS)
def test_what_was_acknowledged_outlives_every_kill(tmp_path: Path) -> None:
    writers = [Writer(number) for number in range(WRITERS)]
    process = ServerProcess(tmp_path, {})
    for kill in range(KILLS):
        process.start()
        done = threading.Semaphore(0)
        with client_of(process) as client:
            for writer in writers:
                writer.check(client)
            threads = [threading.Thread(target=writer.write, args=(client, done)) for writer in writers]
            for thread in threads:
                thread.start()
            for _ in range(FIRST_CHANGES + kill * MORE_CHANGES % 50):
                assert done.acquire(timeout=LONG)
            process.kill()
            for thread in threads:
                thread.join(LONG)
                assert not thread.is_alive()
    with process, client_of(process) as client:
        for writer in writers:
            assert writer.acknowledged
            writer.check(client)
