"""The items of the MONITOR adapter, through a whole server and a real client."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock import __version__
from penstock.adapters.api import AdapterSet, DataAdapter, MetadataAdapter
from penstock.adapters.monitor import MonitorAdapter
from penstock.adapters.monitor.log_lines import MAX_LINES
from penstock.client.connection import Client, connect
from penstock.client.subscription import ItemUpdate
from penstock.config import load
from penstock.log import get
from penstock.monitor.statistics import FIELDS
from penstock.server import Server
from penstock.services.overview import LIBRARIES

log = get("penstock.tests.monitor")

LINE = ["TIME", "TIME_MS", "CLIENT.IP", "CLIENT.NAME", "MESSAGE", "THREAD", "COUNTER"]
SESSION = (
    "key command user address adapter_set library protocol transport opened_ms bandwidth max_bandwidth updates_sec"
    " updates bytes lost subscriptions items unsent_bytes"
)


Settings = Mapping[str, object]
NONE: Settings = {}


class Quotes(DataAdapter):
    """Published by hand."""

    quick = True


class Stage:
    """A running server with a monitored set, and a client of it."""

    def __init__(self, server: Server, quotes: Quotes, client: Client) -> None:
        self.server = server
        self.quotes = quotes
        self.client = client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.stream_ports[0]}"

    async def live(self, *items: str, adapter: str = "MONITOR") -> None:
        """Wait until the server has these items, and no others of the adapter."""
        feed = self.server.kernel.feeds["TEST", adapter]
        while set(feed.items) != set(items):  # noqa: ASYNC110
            # Client and server share the loop: each turn of it brings them further.
            await asyncio.sleep(0.001)

    def sample(self) -> None:
        """A second has passed, as far as the sampler is concerned."""
        self.server.sampler.sample()


@asynccontextmanager
async def running(data_dir: Path | None, settings: Settings) -> AsyncIterator[Stage]:
    quotes = Quotes()
    adapters = {"QUOTES": quotes, "MONITOR": MonitorAdapter()}
    config = load(None, {"stream.port": 0, "api.port": 0, **settings})
    sets = [AdapterSet("TEST", MetadataAdapter(), adapters)]
    server = Server(config.config, sets, data_dir=data_dir, origins=config.origins)
    await server.start()
    try:
        url = f"http://127.0.0.1:{server.stream_ports[0]}"
        async with connect(url, adapter_set="TEST", user="otto") as client:
            yield Stage(server, quotes, client)
    finally:
        await server.stop()


def on_stage(test: Callable[[Stage], Awaitable[None]], data_dir: Path | None = None, settings: Settings = NONE) -> None:
    async def run() -> None:
        async with running(data_dir, settings) as stage, asyncio.timeout(50):
            await test(stage)

    asyncio.run(run())


def test_statistics_have_every_field_and_come_with_every_sample() -> None:
    async def test(stage: Stage) -> None:
        statistics = stage.client.subscribe("monitor_statistics", list(FIELDS), data_adapter="MONITOR")
        first = await anext(statistics)
        assert None not in first.values.values()
        quotes = stage.client.subscribe("gold", "last", data_adapter="QUOTES")
        await stage.live("gold", adapter="QUOTES")
        stage.quotes.update("gold", {"last": "1"})
        await anext(quotes)
        stage.sample()
        values = (await anext(statistics)).values
        while values["UPDATES.TOTAL_IN"] == first.values["UPDATES.TOTAL_IN"]:
            values = (await anext(statistics)).values
        assert int(values["UPDATES.TOTAL_OUT"] or 0) >= 2
        assert values["CLIENTS.SESSIONS"] == "1"
        assert values["CLIENTS.ITEM_SUBSCR"] == "2"
        assert abs(int(values["TIME_MS"] or 0) - time.time() * 1000) < 60_000

    on_stage(test)


def test_the_server_says_what_it_is() -> None:
    async def test(stage: Stage) -> None:
        fields = "EDITION VERSION LICENSE_TYPE CLIENT_ID LOCAL_IP LOCAL_HOST STARTUP_TIME"
        item = stage.client.subscribe("monitor_identification", fields, data_adapter="MONITOR")
        told = await anext(item)
        assert told.is_snapshot
        assert told.values["EDITION"] == "Penstock"
        assert told.values["VERSION"] == __version__
        assert (told.values["LICENSE_TYPE"], told.values["CLIENT_ID"]) == ("FREE", "-")
        assert told.values["LOCAL_HOST"]
        assert abs(int(told.values["STARTUP_TIME"] or 0) - time.time() * 1000) < 60_000

    on_stage(test)


def test_details_say_that_everything_is_allowed() -> None:
    async def test(stage: Stage) -> None:
        libraries = [f"MAX_{code}API" for code in LIBRARIES]
        fields = ["MAX_SSNS", "IS_MPN", "EXP_DATE", "MAX_RATE", "BAND", "TLS", "JMX", "VAL_TYPE", *libraries]
        item = stage.client.subscribe("monitor_details", fields, data_adapter="MONITOR")
        told = (await anext(item)).values
        assert (told["MAX_SSNS"], told["MAX_RATE"], told["EXP_DATE"]) == ("7", "unlimited", None)
        assert {told[name] for name in libraries} == {""}

    on_stage(test, settings={"limits.max_sessions": 7})


def test_client_libraries_are_a_table() -> None:
    async def test(stage: Stage) -> None:
        licences = "free demo eval startup noprod-lim noprod-full prod standby"
        fields = f"key command lib_ext {licences} ordinal"
        item = stage.client.subscribe("monitor_client_libs", fields, mode="COMMAND", data_adapter="MONITOR")
        rows = [(await anext(item)).values for _ in LIBRARIES]
        assert [row["lib_ext"] for row in rows] == list(LIBRARIES.values())
        assert {row["command"] for row in rows} == {"ADD"}
        assert {row["free"] for row in rows} == {""}
        assert {row["prod"] for row in rows} == {None}

    on_stage(test)


def test_a_listener_says_where_it_is() -> None:
    async def test(stage: Stage) -> None:
        fields = "SERVER_NAME LOCAL_PORT LOCAL_INTERFACE IS_SSL"
        item = stage.client.subscribe("monitor_socket_stream", fields, data_adapter="MONITOR")
        port = str(stage.server.stream_ports[0])
        assert (await anext(item)).values == {
            "SERVER_NAME": "stream",
            "LOCAL_PORT": port,
            "LOCAL_INTERFACE": "127.0.0.1",
            "IS_SSL": "false",
        }

    on_stage(test)


def test_lines_of_the_log_are_items_by_level() -> None:
    async def test(stage: Stage) -> None:
        names = ["error", "warning", "info", "output"]
        items = {
            name: stage.client.subscribe(f"monitor_log_{name}", LINE, mode="DISTINCT", data_adapter="MONITOR")
            for name in names
        }
        await stage.live(*[f"monitor_log_{name}" for name in names])
        log.error("it fails", address="192.0.2.7", password="hunter2", name="a\nb")
        log.warning("it may fail")
        line = (await anext(items["error"])).values
        assert line["CLIENT.IP"] == line["CLIENT.NAME"] == "192.0.2.7"
        assert (line["COUNTER"], line["THREAD"]) == ("1", "MainThread")
        message = line["MESSAGE"] or ""
        assert "it fails" in message
        assert "hunter2" not in message
        assert "\n" not in message
        assert "it may fail" in ((await anext(items["warning"])).values["MESSAGE"] or "")
        seen: list[str] = []
        while len(seen) < 2:
            text = (await anext(items["output"])).values["MESSAGE"] or ""
            seen += [text] if "fail" in text else []
        assert ["it fails" in seen[0], "it may fail" in seen[1]] == [True, True]

    on_stage(test)


def test_more_lines_than_anybody_can_read_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "penstock.tests.monitor")

    async def test(stage: Stage) -> None:
        item = stage.client.subscribe("monitor_log_info", LINE, mode="DISTINCT", data_adapter="MONITOR")
        await stage.live("monitor_log_info")
        for number in range(10 * MAX_LINES):
            log.info("a line", number=number)
        told = asyncio.create_task(line_with(item, "left out here"))
        while not told.done():
            # The second has to end.
            log.info("another line")
            await asyncio.wait([told], timeout=0.05)
        assert "because they came too fast" in told.result()

    on_stage(test)


async def line_with(item: AsyncIterator[ItemUpdate], text: str) -> str:
    async for update in item:
        message = update.values["MESSAGE"] or ""
        if text in message:
            return message
    raise AssertionError("the item has ended")


def test_sessions_are_a_table_that_follows_them() -> None:
    async def test(stage: Stage) -> None:
        item = stage.client.subscribe("monitor_sessions", SESSION, mode="COMMAND", data_adapter="MONITOR")
        own = (await anext(item)).values
        assert own["command"] == "ADD"
        assert (own["user"], own["address"], own["adapter_set"]) == ("otto", "127.0.0.1", "TEST")
        assert (own["protocol"], own["transport"]) == ("TLCP", "websocket")
        key = own["key"] or ""
        assert len(key) == 17
        assert all(each.id.startswith("S") and each.id != key for each in stage.server.kernel.sessions.values())
        async with connect(stage.url, adapter_set="TEST", user="eve") as other:
            other.subscribe("gold", "last", data_adapter="QUOTES")
            await stage.live("gold", adapter="QUOTES")
            eve = await row_of(stage, item, lambda row: row["user"] == "eve")
            assert eve["subscriptions"] == eve["items"] == "1"
        gone = await row_of(stage, item, lambda row: row["command"] == "DELETE")
        assert gone["key"] == eve["key"]

    on_stage(test)


async def row_of(
    stage: Stage, item: AsyncIterator[ItemUpdate], wanted: Callable[[Mapping[str, str | None]], bool]
) -> Mapping[str, str | None]:
    """The next row like this; samples go on until it comes."""
    while True:
        stage.sample()
        try:
            async with asyncio.timeout(0.5):
                update = await anext(item)
        except TimeoutError:
            continue
        if wanted(update.values):
            return update.values


def test_items_are_a_table_with_rates() -> None:
    async def test(stage: Stage) -> None:
        stage.client.subscribe("gold silver", "last", data_adapter="QUOTES")
        fields = "key command item adapter_set data_adapter mode subscribers events_sec events"
        item = stage.client.subscribe("monitor_items", fields, mode="COMMAND", data_adapter="MONITOR")
        await row_of(stage, item, lambda row: row["key"] == "TEST/QUOTES/gold")
        stage.quotes.update("gold", {"last": "1"})
        row = await row_of(stage, item, lambda row: row["key"] == "TEST/QUOTES/gold" and row["events"] == "1")
        assert (row["item"], row["adapter_set"], row["data_adapter"]) == ("gold", "TEST", "QUOTES")
        assert (row["mode"], row["subscribers"]) == ("MERGE", "1")
        assert float(row["events_sec"] or 0) > 0

    on_stage(test)


def test_adapters_are_a_table_that_tells_a_failure() -> None:
    async def test(stage: Stage) -> None:
        fields = "key command kind state trouble calls failures call_millis queue items events events_sec"
        item = stage.client.subscribe("monitor_adapters", fields, mode="COMMAND", data_adapter="MONITOR")
        rows = {row["key"]: row for row in [(await anext(item)).values for _ in range(3)]}
        assert {key: row["kind"] for key, row in rows.items()} == {
            "TEST": "metadata",
            "TEST/QUOTES": "data",
            "TEST/MONITOR": "data",
        }
        assert {row["state"] for row in rows.values()} == {"running"}
        stage.quotes.fail("the exchange is closed")
        row = await row_of(stage, item, lambda row: row["state"] == "failed")
        assert (row["key"], row["trouble"]) == ("TEST/QUOTES", "the exchange is closed")

    on_stage(test)


def test_the_configuration_is_a_table_with_origins_and_without_secrets() -> None:
    async def test(stage: Stage) -> None:
        fields = "key command value origin"
        item = stage.client.subscribe("monitor_configuration", fields, mode="COMMAND", data_adapter="MONITOR")
        rows: dict[str | None, Mapping[str, str | None]] = {}
        while "pipeline.token" not in rows or "stream.port" not in rows:
            row = (await anext(item)).values
            rows[row["key"]] = row
        assert rows["stream.port"]["value"] == "0"
        assert rows["stream.port"]["origin"] == "--port"
        assert "hunter2" not in (rows["pipeline.token"]["value"] or "")
        assert rows["stream.host"]["origin"] == "default"

    on_stage(test, settings={"pipeline.token": "hunter2"})


def test_queries_of_the_pipeline_are_a_table(tmp_path: Path) -> None:
    directory = tmp_path / "pipeline"
    directory.mkdir()
    now = datetime.now(UTC).isoformat()
    status = {
        "name": "candles",
        "state": "running",
        "updated": now,
        "lag_seconds": 1.5,
        "batch": 7,
        "batch_millis": 250,
    }
    (directory / "candles.json").write_text(json.dumps(status))

    async def test(stage: Stage) -> None:
        fields = "key command state rows_sec batch_millis lag_millis batch error"
        item = stage.client.subscribe("monitor_queries", fields, mode="COMMAND", data_adapter="MONITOR")
        row = await row_of(stage, item, lambda row: row["key"] == "candles")
        assert (row["state"], row["lag_millis"], row["batch"], row["batch_millis"]) == ("running", "1500", "7", "250")

    on_stage(test, tmp_path)


def test_the_last_hour_is_a_snapshot_of_points() -> None:
    async def test(stage: Stage) -> None:
        for _ in range(25):
            stage.sample()
        known = len(stage.server.sampler.history)
        fields = ["TIME_MS", "UPDATES.EVENTS_SEC"]
        item = stage.client.subscribe("monitor_history", fields, mode="DISTINCT", data_adapter="MONITOR", snapshot=720)
        points = [await anext(item) for _ in range(min(known, 10))]
        assert all(point.is_snapshot for point in points)
        for _ in range(5):
            stage.sample()
        assert not (await anext(item)).is_snapshot

    on_stage(test)


@pytest.mark.parametrize("name", ["monitor_socket_nothing", "monitor_nothing", "monitor_log_nothing", "else"])
def test_what_is_no_item_has_an_empty_snapshot_and_nothing_more(name: str) -> None:
    async def test(stage: Stage) -> None:
        stage.client.subscribe(name, "key command", mode="COMMAND", data_adapter="MONITOR")
        await stage.live(name)
        stage.sample()
        feed = stage.server.kernel.feeds["TEST", "MONITOR"]
        assert feed.events == 0

    on_stage(test)


def test_nothing_is_done_for_items_that_nobody_wants() -> None:
    async def test(stage: Stage) -> None:
        before = len(stage.server.sampler._listeners)
        names = ["statistics", "history", "sessions", "items", "adapters", "configuration"]
        items = [
            stage.client.subscribe(f"monitor_{name}", "key command", mode="COMMAND", data_adapter="MONITOR")
            for name in names
        ]
        await stage.live(*[f"monitor_{name}" for name in names])
        assert len(stage.server.sampler._listeners) == before + len(names)
        for item in items:
            item.close()
        await stage.live()
        assert len(stage.server.sampler._listeners) == before

    on_stage(test)
