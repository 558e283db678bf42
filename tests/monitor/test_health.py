"""What probes say on both ports of a real process: the journal and adapters that have failed, by name and no more."""

from __future__ import annotations

import http.client
import json
import re
import resource
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.raw import TIMEOUT
from tests.support.set_process import Process, echo

FEED = '''
from penstock.adapters import DataAdapter


class Failing(DataAdapter):
    """Fails for good as soon as somebody is interested."""

    def start(self) -> None:
        self.fail("no connection with password hunter2")
'''

# Less than what a file of the journal begins with, in bytes.
SMALL = 4_096

READY: tuple[int, dict[str, object]] = (200, {"status": "ready"})


class Watched(Process):
    def __init__(self, directory: Path, content: str) -> None:
        (directory / "conf").mkdir()
        (directory / "conf" / "failing.py").write_text(FEED)
        super().__init__(directory, content, "--data-dir", str(directory / "data"))
        line = self._process.stdout.readline()
        found = re.search(r"stream=http://[\d.]+:(\d+).*api=http://[\d.]+:(\d+)", line)
        assert found is not None, self.errors()
        self.ports = int(found[1]), int(found[2])
        self.pid = self._process.pid

    def probe(self, path: str, port: int) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            assert response.headers["Content-Type"] == "application/json"
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def becomes(self, expected: tuple[int, Mapping[str, object]]) -> None:
        """Both ports say so at /ready, sooner or later; whatever that is, the process lives."""
        deadline = time.monotonic() + 30
        for port in self.ports:
            while (found := self.probe("/ready", port)) != expected:
                assert time.monotonic() < deadline, found
                time.sleep(0.02)
            assert self.probe("/health", port) == (200, {"status": "live"})


def test_a_journal_that_cannot_be_written_makes_it_503_for_as_long_as_that_lasts(tmp_path: Path) -> None:
    with Watched(tmp_path, "demo.enabled = true\n") as process:
        process.becomes(READY)
        unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (SMALL, unlimited[1]))
        process.becomes((503, {"status": "failed", "failed": ["journal"]}))
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
        process.becomes(READY)


def test_a_data_adapter_that_has_failed_makes_it_503_and_the_reason_stays_in_the_log(tmp_path: Path) -> None:
    broken = '[adapters.BROKEN.data.FEED]\nadapter = "failing:Failing"\n'
    with Watched(tmp_path, echo("QUOTES", "hello") + broken) as process:
        process.becomes((503, {"status": "failed", "failed": ["data adapter BROKEN/FEED"]}))
        assert "hunter2" in process.log_until("data adapter has failed")


def test_an_optional_data_adapter_that_has_failed_is_named_but_stays_200(tmp_path: Path) -> None:
    broken = '[adapters.BROKEN.data.FEED]\nadapter = "failing:Failing"\noptional = true\n'
    with Watched(tmp_path, echo("QUOTES", "hello") + broken) as process:
        process.becomes((200, {"status": "degraded", "degraded": ["data adapter BROKEN/FEED"]}))


def test_a_remote_adapter_that_is_not_connected_is_named_but_stays_200(tmp_path: Path) -> None:
    remote = '[adapters.FAR.data.FEED]\nadapter = "remote"\nparameters = { port = 0 }\n'
    with Watched(tmp_path, echo("QUOTES", "hello") + remote) as process:
        process.becomes((200, {"status": "degraded", "degraded": ["data adapter FAR/FEED"]}))


def test_an_adapter_set_that_a_reload_could_not_start_is_named_until_a_reload_takes_it_away(tmp_path: Path) -> None:
    quotes = echo("QUOTES", "hello")
    with Watched(tmp_path, quotes) as process:
        process.becomes(READY)
        process.reload(quotes + '[adapters.BROKEN.data.FEED]\nadapter = "feed:Refusing"\n')
        process.becomes((200, {"status": "degraded", "degraded": ["adapter set BROKEN"]}))
        process.reload(quotes)
        process.becomes(READY)
