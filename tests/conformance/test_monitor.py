"""The items of monitoring: every field of every one of them, as a client is told it by a server at work."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from penstock import __version__
from penstock.adapters import AdapterSet
from penstock.adapters.api import Journaling
from penstock.adapters.loading import Loader
from penstock.client.connection import Client, connect
from penstock.client.subscription import Subscription
from penstock.config import load
from penstock.log import get
from penstock.monitor.statistics import FIELDS
from penstock.server import Server
from penstock.services.overview import LIBRARIES, LICENCES
from tests.adapters.access.world import password_of, write_users
from tests.conformance.phrases import add, batch, row
from tests.doors.tlex.site import Site as TlexSite
from tests.doors.tlex.site import plain
from tests.support.background import BackgroundServer, MonitoredServer
from tests.support.process import ServerProcess
from tests.support.push_lines import push
from tests.support.raw import Exchange, params

log = get("penstock.tests.monitor")

# Seconds that an update is waited for. Far more than it should take: only a failure is slow.
PATIENCE = 20.0

APPLICATION = "com.mydomain.myapp"

# How often the same happens: events, updates, messages and a sample.
ROUNDS = 3

Values = Mapping[str, str | None]
Claim = Callable[[list[str | None]], bool]


# -- what may be claimed of a field, of all rows or updates that were told ---------------------------------------------


def every(holds: Callable[[str], bool]) -> Claim:
    """Of each of them."""
    return lambda told: bool(told) and all(text is not None and holds(text) for text in told)


def some(holds: Callable[[str], bool]) -> Claim:
    """Of one at least: what has happened in one second and not in another."""
    return lambda told: any(text is not None and holds(text) for text in told)


def last(holds: Callable[[str], bool]) -> Claim:
    """Of the last, when everything has happened."""
    return lambda told: bool(told) and told[-1] is not None and holds(told[-1])


def nothing(told: list[str | None]) -> bool:
    return bool(told) and set(told) == {None}


def among(*texts: str) -> Callable[[str], bool]:
    return lambda text: text in texts


def matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


def at_least(least: float, most: float = float("inf")) -> Callable[[str], bool]:
    return lambda text: least <= float(text) <= most


def is_now(text: str) -> bool:
    """A time of the last minutes, in milliseconds since 1970."""
    return abs(float(text) / 1000 - time.time()) < 600


NUMBER = every(at_least(0))
ZERO = every(among("0", "0.0"))
# A rate of something that happens in each round, and nothing else makes happen.
HAPPENS = some(at_least(0.01))

STATISTICS: dict[str, Claim] = {
    "MEMORY.TOTAL": every(at_least(10e6)),
    "MEMORY.FREE": every(at_least(1e6)),
    "THREADS": every(at_least(2)),
    "POOL.SIZE": NUMBER,
    "POOL.ACTIVE": NUMBER,
    "POOL.WAITING": NUMBER,
    "POOL.QUEUE": NUMBER,
    "POOL.QUEUE_WAIT": NUMBER,
    "NIO.WRITE_QUEUE": NUMBER,
    "NIO.WRITE_QUEUE_WAIT": NUMBER,
    "NIO.WRITE_SELECTORS": every(among("1")),
    "NIO.TOTAL_SELECTORS": every(among("1")),
    "CLIENTS.CONNECTIONS": last(at_least(2)),
    "CLIENTS.MAX_CONNECTIONS": last(at_least(3)),
    "CLIENTS.SESSIONS": last(among("3")),
    "CLIENTS.MAX_SESSIONS": last(among("3")),
    "CLIENTS.REFUSED_SESSIONS": last(among("1")),
    "CLIENTS.STREAMING_SESSIONS": last(among("2")),
    "CLIENTS.POLLING_SESSIONS": last(among("1")),
    # Two of the client whose session streams, and those of the one that is told.
    "CLIENTS.ITEM_SUBSCR": last(at_least(3)),
    "CLIENTS.MAX_ITEM_SUBSCR": last(at_least(3)),
    "ITEMS.TOTAL": last(at_least(3)),
    "ITEMS.EVENTS_SEC": HAPPENS,
    "ITEMS.FILTERED_EVENTS_SEC": HAPPENS,
    "UPDATES.EVENTS_SEC": HAPPENS,
    "UPDATES.TOTAL_IN": last(at_least(5 * ROUNDS)),
    "UPDATES.TOTAL_OUT": last(at_least(5 * ROUNDS)),
    "UPDATES.TOTAL_LOST": ZERO,
    "BANDWIDTH.TOTAL_BYTES": last(at_least(100)),
    "BANDWIDTH.CURRENT": HAPPENS,
    "BANDWIDTH.HIGHEST": last(at_least(0.01)),
    "BANDWIDTH.ALLOCATED": last(among("40", "40.0")),
    "BANDWIDTH.CLIENT_AVERAGE": HAPPENS,
    "MESSAGES.EVENTS_SEC": HAPPENS,
    "MESSAGES.TOTAL_HANDLED": last(among(str(ROUNDS))),
    # Two bytes for each character of "hello".
    "MESSAGES.TOTAL_BYTES": last(among(str(10 * ROUNDS))),
    "MESSAGES.CURRENT_THROUGHPUT": HAPPENS,
    "MESSAGES.HIGHEST_THROUGHPUT": last(at_least(0.001)),
    "PUSH_NOTIFICATIONS.DEVICES": last(among("1")),
    "PUSH_NOTIFICATIONS.MAX_DEVICES": last(among("1")),
    "PUSH_NOTIFICATIONS.NOTIFICATIONS_SEC": HAPPENS,
    "PUSH_NOTIFICATIONS.TOTAL_SENT": last(at_least(5 * ROUNDS)),
    "PUSH_NOTIFICATIONS.TOTAL_BYTES": last(at_least(100)),
    "PUSH_NOTIFICATIONS.CURRENT_THROUGHPUT": HAPPENS,
    "PUMP_WAIT.SLEEP": NUMBER,
    "PUMP_WAIT.NOTIFY": NUMBER,
    "TIME_MS": every(is_now),
    "CPU.PERCENT": NUMBER,
    "MEMORY.RSS": every(at_least(10e6)),
    "DESCRIPTORS.OPEN": every(at_least(5)),
    "DESCRIPTORS.LIMIT": every(at_least(64)),
    "ADAPTERS.CALLS_SEC": HAPPENS,
    "ADAPTERS.FAILED": ZERO,
    "JOURNAL.APPENDS_SEC": HAPPENS,
    "JOURNAL.SYNCS_SEC": HAPPENS,
    "JOURNAL.SYNC_P99": HAPPENS,
    "JOURNAL.BYTES": last(at_least(100)),
    "JOURNAL.FAILED": ZERO,
    "AGE.MAX": HAPPENS,
    "LOOP.LAG_MAX": HAPPENS,
    "DITTO.COMMANDS_SEC": HAPPENS,
    "DITTO.EVENTS_SEC": HAPPENS,
    "DITTO.STREAMS": last(among("1")),
    # A controller, and a broker that does not read.
    "TLEX.SESSIONS": last(among("2")),
    "TLEX.PAYLOADS_SEC": HAPPENS,
    "TLEX.DROPPED": last(at_least(1)),
    "PIPELINE.QUERIES": last(among("1")),
    "PIPELINE.LAG": last(among("1500", "1500.0")),
}
# Of what has its own tests, and does not happen here: the field is there, and is a number.
STATISTICS |= {name: NUMBER for name in FIELDS if name not in STATISTICS}

HOST = socket.gethostname()
IDENTIFICATION: dict[str, Claim] = {
    "EDITION": every(among("Penstock")),
    "VERSION": every(among(__version__)),
    "LICENSE_TYPE": every(among("FREE")),
    "CLIENT_ID": every(among("-")),
    "LOCAL_IP": every(matches(r"[0-9a-f.:]+")),
    "LOCAL_HOST": every(among(HOST)),
    "STARTUP_TIME": every(is_now),
}
DETAILS: dict[str, Claim] = {
    "MAX_SSNS": every(among("3")),
    "IS_MPN": every(among("true")),
    "EXP_DATE": nothing,
    "MAX_RATE": every(among("unlimited")),
    "BAND": every(among("true")),
    "TLS": every(among("true")),
    "JMX": every(among("false")),
    "VAL_TYPE": every(among("None")),
    **{f"MAX_{code}API": every(among("")) for code in LIBRARIES},
}
CLIENT_LIBS: dict[str, Claim] = {
    "key": lambda told: told == [code.lower() for code in LIBRARIES],
    "command": every(among("ADD")),
    "lib_ext": lambda told: told == list(LIBRARIES.values()),
    **{name: every(among("")) if name == "free" else nothing for name in LICENCES},
    "ordinal": every(matches(r"\d+")),
}
LINE: dict[str, Claim] = {
    "TIME": every(matches(r"\d\d:\d\d:\d\d")),
    "TIME_MS": every(is_now),
    "CLIENT.IP": last(among("192.0.2.7")),
    "CLIENT.NAME": last(among("192.0.2.7")),
    "MESSAGE": last(lambda text: "it is written for a test" in text),
    "THREAD": last(among("MainThread")),
    "COUNTER": lambda told: told == [str(number) for number in range(1, len(told) + 1)],
    "LEVEL": last(among("ERROR")),
    "LOGGER": last(among("penstock.tests.monitor")),
}
SESSIONS: dict[str, Claim] = {
    "key": every(matches(r"S\w{16}")),
    "command": every(among("ADD", "UPDATE")),
    "user": some(among("ann")),
    "address": every(among("127.0.0.1")),
    "adapter_set": every(among("TEST")),
    "library": some(lambda text: bool(text)),
    "protocol": every(among("TLCP")),
    "transport": some(among("http-streaming")),
    "opened_ms": every(is_now),
    "bandwidth": NUMBER,
    "max_bandwidth": some(among("40")),
    "updates_sec": NUMBER,
    "updates": some(at_least(5 * ROUNDS)),
    "bytes": some(at_least(100)),
    "lost": ZERO,
    "subscriptions": some(among("1")),
    "items": some(among("2")),
    "unsent_bytes": NUMBER,
}
ITEMS: dict[str, Claim] = {
    "key": some(among("TEST/HAND/a")),
    "command": every(among("ADD", "UPDATE")),
    "item": some(among("a")),
    "adapter_set": every(among("TEST")),
    "data_adapter": some(among("HAND")),
    "mode": some(among("MERGE")),
    "subscribers": some(among("1")),
    "events_sec": NUMBER,
    "events": some(at_least(5 * ROUNDS)),
}
ADAPTERS: dict[str, Claim] = {
    "key": some(among("TEST/MONITOR")),
    "command": every(among("ADD", "UPDATE")),
    "kind": every(among("data", "metadata")),
    "state": every(among("running")),
    "trouble": nothing,
    "calls": some(at_least(1)),
    "failures": ZERO,
    "call_millis": some(at_least(0)),
    "queue": some(among("0")),
    "items": some(among("2")),
    "events": some(at_least(5 * ROUNDS)),
    "events_sec": some(at_least(0)),
}
QUERIES: dict[str, Claim] = {
    "key": every(among("candles")),
    "command": every(among("ADD", "UPDATE")),
    "state": every(among("running")),
    "rows_sec": every(at_least(12.5, 12.5)),
    "batch_millis": every(among("250")),
    "lag_millis": every(among("1500")),
    "batch": every(among("7")),
    "error": nothing,
}
CONFIGURATION: dict[str, Claim] = {
    "key": some(among("limits.max_sessions")),
    "command": every(among("ADD")),
    "value": lambda told: "3" in told and not any("hunter2" in (text or "") for text in told),
    "origin": some(among("default")),
}
HISTORY: dict[str, Claim] = {"TIME_MS": every(is_now)}


class Item(NamedTuple):
    """What an item is asked for with, and whether it has a snapshot."""

    mode: str
    fields: dict[str, Claim]
    has_snapshot: bool = True


MONITORED = {
    "monitor_statistics": Item("MERGE", STATISTICS, has_snapshot=False),
    "monitor_identification": Item("MERGE", IDENTIFICATION),
    "monitor_details": Item("MERGE", DETAILS),
    "monitor_client_libs": Item("COMMAND", CLIENT_LIBS),
    "monitor_socket_stream": Item("MERGE", {}),
    "monitor_log_error": Item("DISTINCT", LINE, has_snapshot=False),
    "monitor_log_warning": Item("DISTINCT", {}, has_snapshot=False),
    "monitor_log_info": Item("DISTINCT", {}, has_snapshot=False),
    "monitor_log_output": Item("DISTINCT", {}, has_snapshot=False),
    "monitor_sessions": Item("COMMAND", SESSIONS),
    "monitor_items": Item("COMMAND", ITEMS),
    "monitor_adapters": Item("COMMAND", ADAPTERS),
    "monitor_queries": Item("COMMAND", QUERIES),
    "monitor_configuration": Item("COMMAND", CONFIGURATION),
    "monitor_history": Item("DISTINCT", HISTORY),
}
SOCKET = ["SERVER_NAME", "LOCAL_PORT", "LOCAL_INTERFACE", "IS_SSL"]


def asked(name: str) -> list[str]:
    if name.startswith("monitor_log_"):
        return list(LINE)
    return SOCKET if name == "monitor_socket_stream" else list(MONITORED[name].fields)


# -- a server at work --------------------------------------------------------------------------------------------------


CONFIGURED = f"""
[push]
enabled = true
[push.apple."{APPLICATION}"]
min_send_delay_millis = 0
[ditto]
adapter_set = "SITE"
[adapters.SITE.metadata]
adapter = "access"
parameters = {{ users = "users" }}
[tlex]
enabled = true
port = 0
queue_frames = 20
tlc = {{ payloads_per_second = 1_000_000, kilobytes_per_second = 1_000_000 }}
broker = {{ keep_alive_millis = 60_000 }}
"""


class WorkingServer(MonitoredServer):
    """With a folder for its data, in which a pipeline has left its status, room for three sessions, a journal, push
    notifications, things and traffic lights.
    """

    def __init__(self, directory: Path, lights: str) -> None:
        """`lights` is the address of the database of traffic lights."""
        settings = {"limits.max_sessions": 3, "pipeline.token": "hunter2"}
        super().__init__(settings)
        file = directory / "penstock.toml"
        file.write_text(CONFIGURED)
        write_users(directory / "users", {"alice": []})
        settings |= {"stream.port": 0, "api.port": 0, "log.level": "error", "tlex.store": lights}
        self._loaded = load(file, settings)
        self._directory = directory

    def make(self) -> Server:
        journal = {"HAND": Journaling(("a",), "ack")}
        sets = [AdapterSet("TEST", self.metadata, self.adapters(), journal=journal)]
        loader = Loader(self._loaded.directory, self._loaded.place)
        return Server(self._loaded.config, sets, loader, self._directory, origins=self._loaded.origins)


class Told:
    """What a client was told: the values of all updates of an item, and how many of them were its snapshot."""

    def __init__(self) -> None:
        self.values: dict[str, list[Values]] = {name: [] for name in MONITORED}
        self.snapshots: dict[str, int] = dict.fromkeys(MONITORED, 0)
        self.port = 0

    async def follow(self, name: str, subscription: Subscription) -> None:
        async for update in subscription:
            self.values[name].append(update.values)
            self.snapshots[name] += update.is_snapshot


async def listen(server: WorkingServer, lights: TlexSite, told: Told, clients: ExitStack) -> None:
    async with connect(server.url, adapter_set="TEST", user="otto") as client:
        followers = [asyncio.ensure_future(told.follow(name, subscribed(client, name))) for name in MONITORED]
        feed = server.server.kernel.feeds["TEST", "MONITOR"]
        async with asyncio.timeout(PATIENCE):
            while set(feed.items) != set(MONITORED):  # noqa: ASYNC110 - the server has a loop of its own
                await asyncio.sleep(0.01)
        await asyncio.to_thread(work, server, lights, clients)
        log.error("it is written for a test", address="192.0.2.7")
        async with asyncio.timeout(PATIENCE):
            while not complete(told):
                server.sample()
                await asyncio.sleep(0.1)
        for each in followers:
            each.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


def complete(told: Told) -> bool:
    """Whether what has happened has reached the tables as well."""
    fed = [values for values in told.values["monitor_items"] if values["key"] == "TEST/HAND/a"]
    return (
        bool(told.values["monitor_log_error"])
        and bool(told.values["monitor_log_output"])
        and any(int(values["events"] or 0) >= 5 * ROUNDS for values in fed)
        and any(int(values["updates"] or 0) >= 5 * ROUNDS for values in told.values["monitor_sessions"])
        and len(told.values["monitor_history"]) > 0
        # Sessions are counted once a second, whatever the test does.
        and any(values["CLIENTS.POLLING_SESSIONS"] == "1" for values in told.values["monitor_statistics"][-1:])
        # The stream begins after its head was sent.
        and told.values["monitor_statistics"][-1]["DITTO.STREAMS"] == "1"
        and len(told.values["monitor_adapters"]) > 4
        # Notifications are sent one after the other.
        and int(told.values["monitor_statistics"][-1]["PUSH_NOTIFICATIONS.TOTAL_SENT"] or 0) >= 5 * ROUNDS
    )


def subscribed(client: Client, name: str) -> Subscription:
    facts = MONITORED[name]
    return client.subscribe(name, asked(name), mode=facts.mode, data_adapter="MONITOR", snapshot=facts.has_snapshot)


def work(server: WorkingServer, lights: TlexSite, clients: ExitStack) -> None:
    """A client that streams within 40 kbit/s, one that polls, one for whom there is no room; events, messages, and
    notifications; things, and somebody who watches them; a traffic light, and a broker that does not read.
    """
    exchange = Exchange(server.host, server.port)
    streaming = clients.enter_context(exchange.stream(user="ann", requested_max_bandwidth=40))
    assert batch(exchange, streaming.session, add(group="a b", data_adapter="HAND")) == ["REQOK,1"]
    assert batch(exchange, streaming.session, push("register", appId=APPLICATION)) == ["REQOK,1"]
    device = streaming.read_until("MPNREG")[-1].split(",")[1]
    wish = push("activate", deviceId=device, data_adapter="HAND", subId=7)
    assert batch(exchange, streaming.session, wish) == ["REQOK,1"]
    streaming.read_until("MPNOK")
    polling = clients.enter_context(exchange.stream(user="bob", polling="true", polling_millis=60_000))
    assert exchange.control(polling.session, reqId=1, op="constrain", requested_max_bandwidth="unlimited") == [
        "REQOK,1"
    ]
    (refusal,) = exchange.request("create_session", params(adapter_set="TEST", user="eve"))
    assert refusal.startswith("CONERR")
    things = httpx.Client(base_url=f"{lights.api}/api/2", auth=("alice", password_of("alice")), timeout=PATIENCE)
    clients.enter_context(things)
    clients.enter_context(things.stream("GET", "/things", headers={"accept": "text/event-stream"}))
    (light,) = lights.tlcs(1)
    broker, controller = lights.join("Broker", light), lights.controller(light)
    broker_counters = lights.door.hub.sessions[broker.token].counters
    while not broker_counters.dropped:
        controller.send(plain("x" * 50_000))
        controller.synchronize()
    for number in range(ROUNDS):
        assert things.put(f"/things/ns:{number}", json={}).status_code == 201
        controller.send(plain("green"))
        controller.synchronize()
        for event in range(5):
            server.update("a", x=f"{number}.{event}")
            streaming.read_until("U")
        assert exchange.request(
            "msg", params(session=streaming.session, reqId=9, message="hello", outcome="false")
        ) == ["REQOK,9"]
        server.sample()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    directory = tmp_path_factory.mktemp("monitor")
    (directory / "pipeline").mkdir()
    status = {"name": "candles", "state": "running", "updated": datetime.now(UTC).isoformat(), "lag_seconds": 1.5}
    status |= {"batch": 7, "batch_millis": 250, "rows_per_second": 12.5}
    (directory / "pipeline" / "candles.json").write_text(json.dumps(status))
    database = f"sqlite:///{directory / 'lights.db'}"
    found = Told()
    server = WorkingServer(directory, database)
    with TlexSite(directory, url=database, background=server) as lights, ExitStack() as clients:
        found.port = server.port
        asyncio.run(listen(server, lights, found, clients))
        yield found


# -- rows --------------------------------------------------------------------------------------------------------------


def row_name(item: str) -> str:
    """monitor_socket_NAME is one item, whatever the listener is called."""
    return "monitor." + item.removeprefix("monitor_").replace("socket_stream", "socket")


@pytest.mark.parametrize(
    ("item", "field", "claim"),
    [
        row(f"{row_name(item)}.{field}", item, field, claim)
        for item, facts in MONITORED.items()
        for field, claim in facts.fields.items()
    ],
)
def test_a_field_says_what_it_is_for(told: Told, item: str, field: str, claim: Claim) -> None:
    values = [each[field] for each in told.values[item] if each.get("command") != "DELETE"]
    assert claim(values), values[-20:]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        row("monitor.socket.SERVER_NAME", "SERVER_NAME", "stream"),
        row("monitor.socket.LOCAL_PORT", "LOCAL_PORT", None),
        row("monitor.socket.LOCAL_INTERFACE", "LOCAL_INTERFACE", "127.0.0.1"),
        row("monitor.socket.IS_SSL", "IS_SSL", "false"),
    ],
)
def test_a_listener_is_told_as_it_is(told: Told, field: str, value: str | None) -> None:
    (values,) = told.values["monitor_socket_stream"]
    assert values[field] == (value or str(told.port))


@pytest.mark.parametrize(("item", "facts"), [row(row_name(item), item, facts) for item, facts in MONITORED.items()])
def test_an_item_has_its_mode_and_its_snapshot(told: Told, item: str, facts: Item) -> None:
    # The line of the test is in the item of its level and in that of all of them.
    if item.startswith("monitor_log_"):
        lines = [each["MESSAGE"] or "" for each in told.values[item]]
        found = [line for line in lines if "it is written for a test" in line]
        assert len(found) == (item in ("monitor_log_error", "monitor_log_output"))
    else:
        assert told.values[item]
    assert (told.snapshots[item] > 0) == facts.has_snapshot


@pytest.mark.conformance("monitor.nobody")
def test_without_the_adapter_there_are_no_such_items(server: BackgroundServer, exchange: Exchange) -> None:
    for adapter_set in ("TEST", "WELCOME", "DEMO"):
        with exchange.stream(adapter_set) as stream:
            (line,) = batch(exchange, stream.session, add(group="monitor_statistics", data_adapter="MONITOR"))
            assert line == "REQERR,1,17,Data Adapter not found"


@pytest.mark.parametrize(
    "adapter", [row("monitor.reserved-name", "MONITOR"), row("monitor.reserved-name.small", "monitor")]
)
def test_the_reserved_name_in_place_of_a_class_means_the_adapter(tmp_path: Path, adapter: str) -> None:
    with ServerProcess(tmp_path, {"adapters.OPERATIONS.data.ANY.adapter": adapter}) as process:
        exchange = Exchange(process.host, process.port)
        with exchange.stream("OPERATIONS") as stream:
            request = add(group="monitor_identification", schema="VERSION", data_adapter="ANY", snapshot=True)
            assert batch(exchange, stream.session, request) == ["REQOK,1"]
            assert stream.read_until("U")[-1] == f"U,1,1,{__version__}"
