"""What comes from elsewhere than a ready-made adapter, with several workers: remote adapters, twins, TLEX, batches.

And what goes out otherwise than by TLCP: the older protocol and the dashboard. Each is seen by clients of two workers,
and most of them while the hub is killed. What is the same for all adapters is in test_workers.py.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest
from playwright.sync_api import expect

from penstock.journal.reader import JournalReader
from tests.adapters.ingest.world import stream, table
from tests.conformance.phrases import create
from tests.conformance.text6.phrases import OK, Device
from tests.contract.backends import PATIENCE, ROOT, SILENCE_MILLIS, Reports
from tests.doors.tlex.site import named
from tests.e2e.test_dashboard import cell, opened, rows, search
from tests.e2e.test_tlex_nodes import CALM, IDENTIFIERS, Clients
from tests.interop.libraries import REPOSITORY, require
from tests.journal.world import rows_of
from tests.support.administration import ask, write_users
from tests.support.broker_process import free_port
from tests.support.browser import PATIENCE as IN_BROWSER
from tests.support.browser import Watch
from tests.support.raw import Socket
from tests.support.waiting import wait_until
from tests.support.worker_processes import INGEST_TOKEN, WorkersProcess, message, subscribe, until

pytestmark = pytest.mark.timeout(300)

WORKERS = ("w1", "w2")
ARROW = "application/vnd.apache.arrow.stream"


class Site:
    """A server with two workers and all that the tests need of it."""

    def __init__(self, directory: Path) -> None:
        self.clients = Clients(directory)
        self.data_port, self.metadata_port = free_port(), free_port()
        write_users(directory / "users")
        remote = {"adapters.REMOTE.metadata": self.metadata_port, "adapters.REMOTE.data.QUOTES": self.data_port}
        settings: dict[str, object] = {
            **CALM,
            "admin.users": str(directory / "users"),
            "tlex.port": 0,
            "tlex.store": self.clients.url,
            "adapters.TRAFFIC.data.TLEX.adapter": "tlex",
        }
        for name, port in remote.items():
            settings[f"{name}.adapter"] = "remote"
            settings[f"{name}.parameters.port"] = port
            settings[f"{name}.parameters.user"] = "ru"
            settings[f"{name}.parameters.password"] = "p w"
            settings[f"{name}.parameters.keepalive_timeout_millis"] = SILENCE_MILLIS
            settings[f"{name}.parameters.first_connection_timeout_millis"] = 0
        self.server = WorkersProcess(directory, settings)
        self.directory = directory

    def at_both(self, adapter_set: str, **login: str) -> tuple[Socket, Socket]:
        one, two = [self.server.socket_at(worker, adapter_set, **login) for worker in WORKERS]
        return one, two


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Tests that kill its hub wait until there is another."""
    running = Site(tmp_path_factory.mktemp("doors"))
    with running.server as server:
        running.clients.api = server.api_port
        yield running
        running.clients.hang_up()


def last_of(client: Socket, line: str) -> None:
    """Read until the client is told this; what comes before it may be anything but an end."""
    while (got := client.read_until("U", "END", "UNSUB")[-1]) != line:
        assert got.startswith("U,"), got


# -- remote adapters ---------------------------------------------------------------------------------------------------


class RemoteAdapters:
    """The adapters of the contract by the published Python SDK, in a process that connects to a server's hub."""

    def __init__(self, site: Site, states: dict[str, list[dict[str, str]]]) -> None:
        self.reports = Reports()
        python = str(require(REPOSITORY / ".interop/adapter-python/bin/python"))
        ports = [str(site.data_port), str(site.metadata_port)]
        self._process = subprocess.Popen(
            [python, str(ROOT / "sdk_adapter.py"), json.dumps(states), *ports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

        def answers() -> bool:
            return site.server.exchange.request("create_session", create(adapter_set="REMOTE", polling=True))[
                0
            ].startswith("CONOK")

        until(answers, "the remote adapter lets clients in")

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self.reports.add(json.loads(line))

    def do(self, command: str, **arguments: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.mark.interop
def test_remote_adapters_serve_the_clients_of_all_workers_and_come_and_go(site: Site) -> None:
    remote = RemoteAdapters(site, {"one": [{"x": "first"}]})
    try:
        clients = site.at_both("REMOTE")
        for client in clients:
            subscribe(client, "one", "x", data_adapter="QUOTES")
            assert client.read_until("U")[-1] == "U,1,1,first"
        # Once, whichever worker asks for it.
        assert len(remote.reports.find("subscribe", item="one")) == 1
        remote.do("update", item="one", event={"x": "second"}, snapshot=False)
        for client in clients:
            last_of(client, "U,1,1,second")
        for number in range(1, 11):
            message(clients[0], f"hello {number}", number)
        done = [clients[0].read_until("MSGDONE", "MSGFAIL")[-1] for _ in range(10)]
        assert done == [f"MSGDONE,CHAT,{number}" for number in range(1, 11)]
        wait_until(lambda: len(remote.reports.find("message")) == 10, "what the adapter says of them")
        heard = [each["text"] for each in remote.reports.find("message")]
        assert heard == [f"hello {number}" for number in range(1, 11)]
        message(clients[1], "rude", 1)
        assert clients[1].read_until("MSGFAIL")[-1] == "MSGFAIL,CHAT,1,-3,mind your words"
        remote.kill()
        remote = RemoteAdapters(site, {"one": [{"x": "third"}]})
        for client in clients:
            last_of(client, "U,1,1,third")
        for client in clients:
            client.__exit__(None, None, None)
    finally:
        remote.kill()


# -- twins and TLEX as items -------------------------------------------------------------------------------------------


def test_twins_are_items_at_all_workers_also_of_the_next_hub(site: Site) -> None:
    address = f"http://127.0.0.1:{site.server.api_port}/api/2/things/org.example:lamp"
    with httpx.Client(auth=("ditto", "ditto"), timeout=60) as http:
        http.put(address, json={"attributes": {"watts": 7}}).raise_for_status()
        clients = site.at_both("DITTO", user="ditto", password="ditto")
        for client in clients:
            subscribe(client, "org.example:lamp", "/attributes/watts _revision", data_adapter="THINGS")
            assert client.read_until("U")[-1] == "U,1,1,7|1"
        http.put(f"{address}/attributes/watts", json=9).raise_for_status()
        for client in clients:
            last_of(client, "U,1,1,9|2")
        site.server.replace_worker("hub")
        assert http.get(address).json()["attributes"] == {"watts": 9}
        http.put(f"{address}/attributes/watts", json=11).raise_for_status()
        for client in clients:
            last_of(client, "U,1,1,11|3")
            client.__exit__(None, None, None)


def written(payload: str) -> str:
    return base64.b64encode(payload.encode()).decode()


def test_what_tlex_clients_send_is_an_item_at_all_workers(site: Site) -> None:
    identifier = IDENTIFIERS[0]
    clients = site.at_both("TRAFFIC")
    for client in clients:
        subscribe(client, f"payloads/test/{identifier}", "payload", "DISTINCT", data_adapter="TLEX")
    controller = site.clients.join("TLC", identifier)
    for number in range(5):
        controller.send(named(identifier, f"up {number}"))
    for client in clients:
        told = [client.read_until("U")[-1].split(",", 3)[3] for _ in range(5)]
        assert told == [written(f"up {number}") for number in range(5)]
    site.server.replace_worker("hub")
    # A new hub ends all sessions of TLEX, and its clients come again.
    site.clients.join("TLC", identifier).send(named(identifier, "after"))
    for client in clients:
        last_of(client, f"U,1,1,{written('after')}")
        client.__exit__(None, None, None)


# -- batches -----------------------------------------------------------------------------------------------------------


def test_batches_are_published_once_although_the_hub_is_killed_and_they_are_sent_again(site: Site) -> None:
    server = site.server
    address = f"http://127.0.0.1:{server.api_port}/api/ingest/TEST/HAND/queries/q"
    clients = site.at_both("TEST")
    for client in clients:
        subscribe(client, "batched", "n", data_adapter="HAND")
    headers = {"Authorization": f"Bearer {INGEST_TOKEN}", "Content-Type": ARROW}

    def send(batch: int) -> bool:
        """Whether it had been published before."""
        body = stream(table([{"item": "batched", "n": str(batch)}]))
        answer = httpx.put(f"{address}/batches/{batch}?mode=MERGE", content=body, headers=headers, timeout=60)
        answer.raise_for_status()
        return bool(answer.json()["repeated"])

    assert [send(1), send(1), send(2)] == [False, True, False]
    killing = threading.Thread(target=server.replace_worker, args=("hub",))
    killing.start()
    batch, failures = 3, 0
    while killing.is_alive() or batch < 6:
        try:
            send(batch)
        except httpx.TransportError:
            # As a sender does that got no answer.
            failures += 1
        else:
            batch += 1
    killing.join()
    assert failures > 0
    assert send(batch - 1)
    assert httpx.get(address, headers=headers, timeout=60).json() == {"batch": batch - 1}
    for client in clients:
        last_of(client, f"U,1,1,{batch - 1}")
        client.__exit__(None, None, None)
    journaled = rows_of(JournalReader(site.directory / "data" / "journal").read())
    numbers = [int(json.loads(value or "")["n"]) for _, entity, _, value in journaled if entity.endswith("/batched")]
    assert numbers == list(range(1, batch))


# -- the older protocol, and the dashboard -----------------------------------------------------------------------------


def test_clients_of_the_older_protocol_are_served_by_any_worker(site: Site) -> None:
    server = site.server
    server.publish("older", last="1")
    device = Device(server.exchange)
    homes: set[str] = set()
    while homes != set(WORKERS):
        with device.create() as tap:
            homes.add(tap.session.rpartition("-")[2])
            # On a connection of its own, which may come to the other worker.
            assert device.add(tap.session, id="older", schema="last", data_adapter="HAND", snapshot="true") == OK
            assert tap.read_line() == "1,1|1"
            with device.rebind(tap) as again:
                server.publish("older", last="2")
                assert again.read_line() == "1,1|2"
                server.publish("older", last="1")
                assert again.read_line() == "1,1|1"
                assert device.control(tap.session, op="destroy") == OK


@pytest.mark.browser
def test_the_dashboard_shows_all_processes_and_their_sessions(site: Site, watch: Watch) -> None:
    clients = site.at_both("TEST", user="shown there")
    for client in clients:
        subscribe(client, "shown", "last", data_adapter="HAND")
    page = opened(watch, site.server.api_port, "nodes")
    expect(rows(page, "nodes")).to_have_count(3, timeout=IN_BROWSER)
    shown = rows(page, "nodes")
    expect(cell(shown, "key")).to_have_text(["hub", "w1", "w2"])
    expect(cell(shown, "role")).to_have_text(["hub", "edge", "edge"])
    expect(cell(shown, "state")).to_have_text(["up", "up", "up"])
    # The page is a client too.
    expect(cell(shown, "sessions")).to_have_text([re.compile("^0$"), re.compile("^[1-9]"), re.compile("^[1-9]")])
    expect(cell(shown, "items")).to_have_text([re.compile("^[1-9]")] * 3)
    expect(cell(shown, "lag_millis")).to_have_text([re.compile("^–$"), re.compile(r"\d"), re.compile(r"\d")])
    epoch = str(ask(site.server.api_port, "GET", "/cluster").body["epoch"])
    expect(cell(shown, "epoch").first).to_have_text(epoch)
    page.locator("#tab-sessions").click()
    search(page, "sessions", "shown there")
    expect(rows(page, "sessions")).to_have_count(2, timeout=IN_BROWSER)
    for client in clients:
        client.__exit__(None, None, None)
    assert watch.complaints() == []
