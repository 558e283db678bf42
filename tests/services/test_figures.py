"""The figures of a whole server with all its doors: each that statistics are made of is there, and tells the truth."""

from __future__ import annotations

import ast
import asyncio
import http.client
import inspect
import json
import re
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from penstock import BUILD, __version__
from penstock.adapters import AdapterSet
from penstock.build.choice import COMPILED, INTERPRETED
from penstock.client import connect
from penstock.config import load
from penstock.monitor import sampler
from penstock.monitor.exposition import OPEN_METRICS
from penstock.monitor.figures import Family, Kind, merged
from penstock.server import Server
from penstock.services.queries import read_queries
from penstock.services.sampling import SamplingService
from penstock.wire.tlex.datagrams import Bye
from tests.doors.ditto.site import Site as DittoSite
from tests.doors.tlex.site import Site as TlexSite
from tests.doors.tlex.site import named
from tests.support.background import HandAdapter, HandMetadata

HOSTILE_SET = 'QUO"TES\\ of\n{the}, day'

# Bounded ones: nothing that a client chooses may be a label.
LABELS = {"adapter", "adapter_set", "build", "kind", "library", "loss", "port", "state", "transport", "type", "version"}


class Site:
    """A server in this event loop, with everything that it can have."""

    def __init__(self, directory: Path, **settings: object) -> None:
        defaults = {
            "stream.port": 0,
            "api.port": 0,
            "tlex.port": 0,
            "tlex.enabled": True,
            "push.enabled": True,
            # For the Ditto door; there is no loader for the demo's sets.
            "demo.enabled": True,
            "log.level": "error",
        }
        self.adapter = HandAdapter()
        sets = [AdapterSet(name, HandMetadata(), {"FEED": self.adapter}) for name in ("SET", HOSTILE_SET)]
        config = load(None, {**defaults, **{key.replace("__", "."): value for key, value in settings.items()}}).config
        self.server = Server(config, sets, None, directory)

    @property
    def sampling(self) -> SamplingService:
        [found] = [one for one in self.server.services if isinstance(one, SamplingService)]
        return found

    def families(self) -> dict[str, Family]:
        return {family.name: family for family in merged(sampler_figures(self))}

    def value(self, name: str, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(sample.value for sample in self.families()[name].samples if wanted <= set(sample.labels))

    async def get(self, path: str, accept: str = "*/*", port: int | None = None) -> tuple[int, str, str]:
        """Status, type and body."""

        def ask() -> tuple[int, str, str]:
            connection = http.client.HTTPConnection("127.0.0.1", port or self.server.api_port, timeout=20)
            connection.request("GET", path, headers={"Accept": accept})
            response = connection.getresponse()
            found = response.status, response.headers["Content-Type"], response.read().decode()
            connection.close()
            return found

        return await asyncio.to_thread(ask)


def sampler_figures(site: Site) -> list[Family]:
    return list(site.sampling.figures_of_all())


Story = Callable[[Site], Awaitable[None]]


def play(directory: Path, story: Story, **settings: object) -> None:
    async def main() -> None:
        site = Site(directory, **settings)
        await site.server.start()
        try:
            await story(site)
        finally:
            await site.server.stop()

    asyncio.run(main())


def names_in_sampler() -> Iterator[str]:
    for node in ast.walk(ast.parse(inspect.getsource(sampler))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("penstock_"):
            yield node.value


def test_every_figure_that_statistics_are_made_of_is_there(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        names = {name.partition("/")[0] for name in names_in_sampler()}
        assert len(names) > 40
        assert names - site.families().keys() == set()

    play(tmp_path, story)


def test_names_units_and_labels_are_as_prometheus_wants_them(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        for family in site.families().values():
            assert re.fullmatch(r"penstock(_[a-z]+)+", family.name), family.name
            assert not family.name.endswith(("_total", "_info", "_count", "_sum", "_bucket", "_millis", "_ms"))
            assert family.help.endswith("."), family.name
            assert (family.kind is Kind.HISTOGRAM) == bool(family.histograms)
            for sample in family.samples:
                assert {name for name, _ in sample.labels} <= LABELS
            assert len({sample.labels for sample in family.samples}) == len(family.samples), family.name

    play(tmp_path, story)


def test_metrics_are_what_prometheus_reads_in_both_formats_and_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None, "make system-setup installs it"

    async def story(site: Site) -> None:
        status, kind, body = await site.get("/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        plain = {sample.name for family in parse_plain(body) for sample in family.samples}
        checked = await asyncio.to_thread(
            subprocess.run, [promtool, "check", "metrics"], input=body.encode(), capture_output=True, timeout=30
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
        status, kind, body = await site.get("/metrics", "application/openmetrics-text;version=1.0.0")
        assert (status, kind) == (200, OPEN_METRICS)
        families = list(parse_open_metrics(body))  # type: ignore[no-untyped-call]
        assert {sample.name for family in families for sample in family.samples} >= plain
        adapters = [
            sample.labels["adapter"] for family in families for sample in family.samples if "adapter" in sample.labels
        ]
        assert f"{HOSTILE_SET}/FEED" in adapters

    play(tmp_path, story)


def test_the_build_is_named_in_one_word_whatever_the_reason_for_it(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        [sample] = site.families()["penstock_build"].samples
        assert dict(sample.labels) == {"version": __version__, "build": BUILD.name}
        assert BUILD.name in (COMPILED, INTERPRETED)

    play(tmp_path, story)


def test_without_metrics_nothing_is_there(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        assert (await site.get("/metrics"))[0] == 404
        assert (await site.get("/ready"))[0] == 200

    play(tmp_path, story, api__metrics=False)


def test_a_session_is_seen_with_its_transport_set_items_updates_and_messages(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        server, adapter = site.server, site.adapter
        async with connect(f"http://127.0.0.1:{server.stream_ports[0]}", adapter_set="SET") as client:
            subscription = client.subscribe(["a", "b"], ["x"], data_adapter="FEED")
            updates = aiter(subscription)
            await until(lambda: adapter.subscribed == {"a", "b"})
            for number in range(3):
                adapter.publish("a", {"x": str(number)})
                await anext(updates)
            await client.send_message("four")
            await site.sampling.step()
            found = server.sampler.latest
            assert (found.clients_sessions, found.clients_streaming_sessions, found.clients_polling_sessions) == (
                1,
                1,
                0,
            )
            assert (found.clients_item_subscr, found.items_total) == (2, 2)
            # The adapter serves under two names, and nobody listens to the second.
            assert (found.updates_total_in, found.updates_total_out) == (6, 3)
            assert (found.messages_total_handled, found.messages_total_bytes) == (1, 8)
            assert found.bandwidth_total_bytes > 30
            assert found.clients_connections >= 1
            assert site.value("penstock_sessions_by_transport", transport="websocket") == 1
            assert site.value("penstock_sessions_by_adapter_set", adapter_set="SET") == 1
            assert site.value("penstock_connections", port="stream", kind="websocket") == 1
            assert site.value("penstock_events_unwanted") == 3
            assert site.value("penstock_adapter_events", adapter="SET/FEED") == 3
            assert site.value("penstock_adapter_items", adapter="SET/FEED") == 2
            assert site.value("penstock_adapter_calls", adapter="SET/FEED") >= 2
            # authenticate, the decisions about the subscription, and the message at least.
            assert site.value("penstock_adapter_calls", adapter="SET") >= 3
            assert site.value("penstock_adapter_call_failures") == 0
            assert sum(site.families()["penstock_update_age_seconds"].histograms[0].histogram.counts) >= 1
        await until(lambda: not server.kernel.sessions)
        await site.sampling.step()
        assert server.sampler.latest.clients_sessions == 0
        assert server.sampler.latest.clients_max_sessions == 1
        # Not vanished: nobody is there now.
        assert site.value("penstock_sessions_by_transport", transport="websocket") == 0

    play(tmp_path, story)


def test_samples_are_taken_by_themselves_and_the_lag_of_the_loop_is_measured(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        heard = asyncio.Event()
        site.server.sampler.listen(lambda found: heard.set() if found.loop_lag_max else None)
        await asyncio.wait_for(heard.wait(), 20)
        found = site.server.sampler.latest
        assert found.memory_rss > 10_000_000
        assert found.descriptors_open > 5
        assert found.threads >= 2
        assert 0 <= found.loop_lag_p50 <= found.loop_lag_p99 <= found.loop_lag_max

    play(tmp_path, story)


def test_a_blocked_loop_is_seen(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        async with asyncio.timeout(30):
            while not site.value("penstock_loop_stalls"):
                # Until the watchdog's thread has looked: on a busy machine that may take longer.
                time.sleep(0.2)  # noqa: ASYNC251
                await asyncio.sleep(0.01)

    play(tmp_path, story, server__stall_millis=50)


def test_a_service_that_cannot_say_its_figures_does_not_hide_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: object) -> None:
        raise RuntimeError("as tests do")

    monkeypatch.setattr("penstock.services.kernel.KernelService.figures", fails)

    async def story(site: Site) -> None:
        status, _, body = await site.get("/metrics")
        assert status == 200
        assert "penstock_events_received" not in body
        assert "penstock_journal_records_total" in body
        assert site.value("penstock_figures_faults") >= 1

    play(tmp_path, story)


def test_the_journal_is_seen(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        gatherer = site.server.gatherer
        assert gatherer is not None
        await gatherer.committed()
        assert site.value("penstock_journal_failed") == 0
        await until(lambda: site.value("penstock_journal_size_bytes") > 0)
        assert site.value("penstock_journal_segments") == 1
        assert site.value("penstock_disk_size_bytes") > site.value("penstock_disk_free_bytes") > 0
        assert site.value("penstock_journal_oldest_time_seconds") > 1.7e9

    play(tmp_path, story)


def test_a_disk_that_is_nearly_full_is_named_and_clients_still_come(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await until(lambda: site.value("penstock_disk_size_bytes") > 0)
        for port in (site.server.api_port, site.server.stream_ports[0]):
            status, kind, body = await site.get("/ready", port=port)
            assert (status, kind) == (200, "application/json")
            assert json.loads(body) == {"status": "degraded", "degraded": ["disk nearly full"]}
            status, _, body = await site.get("/health", port=port)
            assert (status, json.loads(body)) == (200, {"status": "live"})

    play(tmp_path, story, journal__min_free_bytes=2**53)


def test_a_server_that_lets_nobody_in_any_more_says_that_it_drains(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        site.server.stream.close()
        status, _, body = await site.get("/ready")
        assert (status, json.loads(body)) == (503, {"status": "draining"})
        assert (await site.get("/health"))[0] == 200

    play(tmp_path, story)


def test_queries_of_the_pipeline_are_seen_by_the_files_they_write(tmp_path: Path) -> None:
    (tmp_path / "candles.json").write_text(
        '{"name": "candles", "state": "running", "updated": "2026-01-01T00:00:10.000Z", "lag_seconds": 2.5}'
    )
    (tmp_path / "movers.json").write_text('{"name": "movers", "state": "running", "updated": "2026-01-01T00:00:00Z"}')
    (tmp_path / "old.json").write_text('{"name": "old", "state": "stopped", "updated": "2025-01-01T00:00:00Z"}')
    (tmp_path / "odd.json").write_text('{"name": "odd", "state": "x\\n1", "updated": "2026-01-01T00:00:10Z"}')
    for name, content in {
        "half": '{"name": "ha',
        "other": "[]",
        "time": '{"name":"t","state":"running","updated":"?"}',
    }.items():
        (tmp_path / f"{name}.json").write_text(content)
    found = read_queries(tmp_path, 1767225611.0 + 25)
    assert {query.name: query.state for query in found} == {
        "candles": "running",
        "movers": "gone",
        "odd": "gone",
        "old": "stopped",
    }


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110, those who count tell nobody
            await asyncio.sleep(0.005)


# -- doors -------------------------------------------------------------------------------------------------------------


def scraped(port: int) -> dict[str, float]:
    """What /metrics says, samples of a name added up."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        families = list(parse_plain(answer.read().decode()))
    found: dict[str, float] = {}
    for family in families:
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def test_twins_are_seen(tmp_path: Path) -> None:
    with DittoSite(tmp_path) as site:
        alice = site.of("alice")
        assert alice.put("/things/ns:a", json={}).status_code == 201
        assert alice.get("/things/ns:a").status_code == 200
        assert alice.get("/things/ns:b").status_code == 404
        found = scraped(site.server.api_port)
        assert found["penstock_ditto_commands_total"] == 3
        assert found["penstock_ditto_commands_refused_total"] == 1
        # The thing and its policy.
        assert (found["penstock_ditto_changes_total"], found["penstock_ditto_twins"]) == (2, 2)
        assert found["penstock_journal_records_total"] >= 2
        assert found["penstock_journal_syncs_total"] == found["penstock_journal_sync_seconds_count"] >= 1
        assert found["penstock_journal_written_bytes_total"] > 100
        with alice.stream("GET", "/things", headers={"accept": "text/event-stream"}) as stream:
            assert stream.status_code == 200
            wait_for(lambda: scraped(site.server.api_port)["penstock_ditto_streams"] == 1)
        wait_for(lambda: scraped(site.server.api_port)["penstock_ditto_streams"] == 0)


def test_traffic_lights_are_seen_also_when_their_sessions_have_ended(tmp_path: Path) -> None:
    with TlexSite(tmp_path) as site:
        port = site.background.api_port
        (a,) = site.tlcs(1)
        controller, broker = site.join("TLC", a), site.join("Broker", a)
        controller.send(named(a, "one"), named("NOTTHERE", "x"))
        controller.synchronize()
        broker.payload()
        found = scraped(port)
        assert (found["penstock_tlex_sessions"], found["penstock_tlex_controllers"]) == (2, 1)
        for peer in (controller, broker):
            peer.send(Bye())
            assert peer.bye() is None
        ended = scraped(port)
        assert ended.get("penstock_tlex_sessions", 0) == 0
        for name in ("payloads", "payloads_sent", "payloads_refused", "payload_bytes"):
            assert ended[f"penstock_tlex_{name}_total"] == found[f"penstock_tlex_{name}_total"] > 0
        assert (found["penstock_tlex_payloads_total"], found["penstock_tlex_payloads_refused_total"]) == (2, 1)


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
