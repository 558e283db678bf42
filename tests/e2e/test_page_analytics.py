"""What the page shows of the pipeline: candles, movers, and how the queries are doing.

The pipeline is played by the test, which publishes as it would: no Spark here. The rest of the page: test_page.py.
`PENSTOCK_SCREENSHOT=docs/pipeline.png pytest tests/e2e/test_page_analytics.py -k picture` makes the picture again.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.pipeline.progress import lines
from penstock.pipeline.runner import SPARK_STARTS
from penstock.pipeline.status import QueryStatus
from tests.support.browser import PATIENCE, Watch
from tests.support.process import ServerProcess

pytestmark = pytest.mark.browser

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
OFF = "The pipeline is off. “penstock demo” starts it if Spark is installed."
PHONE = 375  # pixels across a small one


class Pipeline:
    """Publishes what the jobs would."""

    def __init__(self, process: ServerProcess) -> None:
        self._api = f"http://{process.host}:{process.api_port}"
        self._token = (process.directory / "data" / "pipeline" / "token").read_text().strip()
        self._speaking = threading.Event()

    def post(self, adapter: str, body: bytes) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/x-ndjson"}
        request = urllib.request.Request(f"{self._api}/api/ingest/WELCOME/{adapter}", body, headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.load(answer)["refused"] == 0

    def publish(self, adapter: str, item: str, **fields: object) -> None:
        self.post(adapter, json.dumps({"item": item, "fields": fields}).encode())

    def candle(self, number: int, stock: str = "item2", closed: bool = True, close: float | None = None) -> None:
        """The candle of some ten seconds after noon, on a wave."""
        start = NOON + timedelta(seconds=10 * number)
        prices = [3 + math.sin(number / 3), 3 + math.sin((number + 1) / 3) if close is None else close]
        self.publish(
            "CANDLES",
            f"{'candles' if closed else 'candle'}.10s.{stock}",
            stock=stock,
            size="10s",
            start=start.isoformat().replace("+00:00", "Z"),
            end=(start + timedelta(seconds=10)).isoformat().replace("+00:00", "Z"),
            open=round(prices[0], 2),
            high=round(max(prices) + 0.1, 2),
            low=round(min(prices) - 0.15, 2),
            close=round(prices[1], 2),
            volume=1200 + number,
            vwap=round(sum(prices) / 2, 3),
            trades=12,
        )

    def mover(self, key: str, name: str, price: float, change: float, command: str = "UPDATE") -> None:
        fields: dict[str, object] = {"stock": key, "name": name, "price": price, "change": change}
        side = "gainer" if change > 0 else "loser"
        self.publish("MOVERS", "movers", key=key, command=command, side=side, rank=1, **fields)

    def say(self, *statuses: QueryStatus) -> None:
        self.post("PIPELINE", lines(statuses))

    def run(self, *names: str) -> None:
        self.say(*(QueryStatus(name=name, state="running", rows_per_second=41.8, lag_seconds=0.32) for name in names))


@pytest.fixture
def pipeline(process: ServerProcess) -> Pipeline:
    return Pipeline(process)


def open_page(watch: Watch, process: ServerProcess) -> Page:
    watch.page.goto(f"{process.url}/")
    expect(watch.page.locator("#stocks")).to_have_attribute("data-stale", "false", timeout=PATIENCE)
    return watch.page


def pass_silence(page: Page) -> None:
    """Put the page's clock on by nine seconds: eight without a word are a silence (web/src/market/pipeline.ts)."""
    page.evaluate("performance.now = ((now) => () => now() + 9_000)(performance.now.bind(performance))")


def expect_candles(page: Page, count: int) -> None:
    expect(page.locator("#chart svg")).to_have_attribute("data-candles", str(count))


def test_without_a_pipeline_the_page_says_how_to_get_one_and_shows_no_empty_chart(
    process: ServerProcess, watch: Watch
) -> None:
    page = open_page(watch, process)
    expect(page.locator("#pipeline-words")).to_have_text("Looking for the pipeline…")
    pass_silence(page)
    expect(page.locator("#pipeline-words")).to_have_text(OFF, timeout=PATIENCE)
    expect(page.locator("#analytics")).to_be_hidden()
    assert watch.complaints() == []


def test_while_the_pipeline_starts_the_page_says_which_queries(
    process: ServerProcess, pipeline: Pipeline, watch: Watch
) -> None:
    page = open_page(watch, process)
    pipeline.say(QueryStatus(name="candles", state="running"), QueryStatus(name="movers", state="starting"))
    expect(page.locator("#pipeline-words")).to_have_text("The pipeline is starting: movers…")
    pipeline.run("movers")
    expect(page.locator("#pipeline-words")).to_have_text("The pipeline runs; the first candles are on their way…")
    pipeline.candle(1)
    expect(page.locator("#pipeline-words")).to_have_text("2 queries running, 42 events/s, 0.3 s behind")
    expect(page.locator("#pipeline")).to_have_attribute("data-tone", "live")
    expect(page.locator("#pipeline-steps")).to_be_hidden()
    expect(page.locator("#analytics")).to_be_visible()
    assert watch.complaints() == []


def test_while_spark_starts_the_page_says_what_it_does_and_shows_nothing_of_before(
    process: ServerProcess, pipeline: Pipeline, watch: Watch
) -> None:
    pipeline.candle(1)
    page = open_page(watch, process)
    steps = page.locator("#pipeline-steps li")
    expect(steps.nth(0)).to_have_attribute("data-state", "now")
    pipeline.say(QueryStatus(name="candles", state="starting", reason=SPARK_STARTS))
    expect(page.locator("#pipeline-words")).to_have_text("Spark is starting…")
    expect(steps.nth(0)).to_have_attribute("data-state", "done")
    expect(steps.nth(1)).to_have_text(re.compile(r"Spark starts its Java machine, .* \(\d+ s\)"))
    expect(page.locator("#analytics")).to_be_hidden()
    pipeline.say(QueryStatus(name="candles", state="starting"))
    expect(steps.nth(2)).to_have_attribute("data-state", "now")
    pipeline.run("candles")
    expect(page.locator("#analytics")).to_be_visible()
    expect(page.locator("#pipeline-steps")).to_be_hidden()


def test_a_query_that_failed_is_shown_with_its_reason(process: ServerProcess, pipeline: Pipeline, watch: Watch) -> None:
    pipeline.candle(1)
    page = open_page(watch, process)
    pipeline.run("candles", "movers")
    pipeline.say(QueryStatus(name="movers", state="failed", reason="the disk is full"))
    expect(page.locator("#pipeline-words")).to_have_text("The query movers failed: the disk is full")
    pipeline.run("movers")
    expect(page.locator("#pipeline-words")).to_contain_text("2 queries running")
    pipeline.say(QueryStatus(name="candles", state="stopped"), QueryStatus(name="movers", state="stopped"))
    expect(page.locator("#pipeline-words")).to_have_text("The pipeline has been stopped.")
    expect(page.locator("#analytics")).to_be_hidden()


def test_a_pipeline_that_falls_silent_is_told(process: ServerProcess, pipeline: Pipeline, watch: Watch) -> None:
    pipeline.candle(1)
    page = open_page(watch, process)
    pipeline.run("candles")
    expect(page.locator("#pipeline-words")).to_have_text("1 query running, 42 events/s, 0.3 s behind")
    pass_silence(page)
    expect(page.locator("#pipeline-words")).to_have_text("The pipeline is silent, waiting…", timeout=PATIENCE)
    pipeline.run("candles")
    expect(page.locator("#pipeline-words")).to_contain_text("running")


def test_words_of_a_pipeline_that_is_gone_do_not_count(
    process: ServerProcess, pipeline: Pipeline, watch: Watch
) -> None:
    pipeline.run("candles", "movers")
    page = open_page(watch, process)
    expect(page.locator("#pipeline-words")).to_have_text("Looking for the pipeline…")
    pass_silence(page)
    expect(page.locator("#pipeline-words")).to_have_text(OFF, timeout=PATIENCE)


def test_closed_candles_and_the_one_that_grows_are_drawn(
    process: ServerProcess, pipeline: Pipeline, watch: Watch
) -> None:
    for number in range(5):
        pipeline.candle(number)
    page = open_page(watch, process)
    pipeline.run("candles")
    expect(page.locator("#analytics")).to_be_visible()
    expect_candles(page, 5)
    pipeline.candle(5, closed=False, close=3.5)
    expect_candles(page, 6)
    expect(page.locator("#chart-figures")).to_contain_text("close 3.5")
    before = page.locator("#chart rect").last.get_attribute("y")
    pipeline.candle(5, closed=False, close=4.5)
    expect(page.locator("#chart-figures")).to_contain_text("close 4.5")
    expect(page.locator("#chart rect").last).not_to_have_attribute("y", before or "")
    pipeline.candle(5, closed=True, close=4.25)
    expect(page.locator("#chart-figures")).to_contain_text("close 4.25")
    expect_candles(page, 6)
    assert watch.complaints() == []


def test_another_stock_can_be_chosen_by_its_name(process: ServerProcess, pipeline: Pipeline, watch: Watch) -> None:
    pipeline.candle(1)
    for number in range(3):
        pipeline.candle(number, stock="item1")
    page = open_page(watch, process)
    pipeline.run("candles")
    expect_candles(page, 1)
    page.locator("#chart-stock").select_option(label="Anduct")
    expect(page.locator("#chart-stock")).to_have_value("item1")
    expect_candles(page, 3)
    pipeline.candle(7)
    pipeline.candle(3, stock="item1", closed=False)
    expect_candles(page, 4)
    assert watch.complaints() == []


def test_movers_come_change_and_go_from_the_largest_gain_to_the_largest_loss(
    process: ServerProcess, pipeline: Pipeline, watch: Watch
) -> None:
    pipeline.mover("item1", "Anduct", 3.04, 2.5)
    page = open_page(watch, process)
    rows = page.locator("#movers tbody tr")
    expect(rows).to_have_text(["Anduct3.042.50"])
    pipeline.mover("item2", "Ations Europe", 16.1, -4.129)
    pipeline.mover("item3", "Bagies Consulting", 7.19, 9)
    expect(rows).to_have_text(["Bagies Consulting7.199.00", "Anduct3.042.50", "Ations Europe16.10-4.13"])
    expect(page.locator("[data-key=item2] [data-mover=change]")).to_have_attribute("data-sign", "down")
    pipeline.mover("item1", "Anduct", 3.5, 12.5)
    expect(rows).to_have_text(["Anduct3.5012.50", "Bagies Consulting7.199.00", "Ations Europe16.10-4.13"])
    pipeline.mover("item3", "Bagies Consulting", 7, 8, command="DELETE")
    expect(rows).to_have_text(["Anduct3.5012.50", "Ations Europe16.10-4.13"])
    assert watch.complaints() == []


def test_the_page_has_its_candles_and_movers_again_after_a_restart_of_the_server(
    process: ServerProcess, pipeline: Pipeline, watch: Watch
) -> None:
    pipeline.candle(1)
    pipeline.mover("item1", "Anduct", 3.04, 2.5)
    page = open_page(watch, process)
    expect(page.locator("#movers tbody tr")).to_have_count(1)
    process.stop()
    expect(page.locator("#pipeline-words")).to_have_text("Waiting for the server…")
    process.start()
    expect(page.locator("#stocks")).to_have_attribute("data-stale", "false", timeout=PATIENCE)
    expect(page.locator("#movers tbody tr")).to_have_text(["Anduct3.042.50"])
    again = Pipeline(process)
    again.run("candles")
    again.candle(2)
    expect_candles(page, 2)
    assert watch.complaints(server_was_away=True) == []


def test_a_phone_shows_chart_and_movers_without_scrolling_sideways(
    process: ServerProcess, pipeline: Pipeline, browser: Browser
) -> None:
    for number in range(10):
        pipeline.candle(number)
    pipeline.mover("item1", "Anduct", 3.04, 2.5)
    with browser.new_context(
        viewport={"width": PHONE, "height": 667}, is_mobile=True, has_touch=True, device_scale_factor=2
    ) as context:
        watch = Watch(context)
        page = open_page(watch, process)
        pipeline.run("candles", "movers")
        expect(page.locator("#chart svg")).to_be_visible()
        expect(page.locator("#movers tbody tr")).to_be_visible()
        assert page.evaluate("window.innerWidth") == PHONE
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
        for place in ("#chart svg", "#movers"):
            box = page.locator(place).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE
        assert watch.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_of_chart_and_movers_can_be_made(
    process: ServerProcess, pipeline: Pipeline, browser: Browser, tmp_path: Path, scheme: str
) -> None:
    file = Path(os.environ.get("PENSTOCK_SCREENSHOT", tmp_path / "page.png")).with_suffix(f".{scheme}.png")
    with browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    ) as context:
        watch = Watch(context)
        page = open_page(watch, process)
        pipeline.run("candles", "movers", "history")
        for number in range(30):
            pipeline.candle(number)
        for number, name in enumerate(["Anduct", "Ations Europe", "Bagies Consulting", "BAY Corporation"]):
            pipeline.mover(f"item{number + 1}", name, 3 + number, 7.5 - 4 * number)
        expect(page.locator("#movers tbody tr")).to_have_count(4)
        expect_candles(page, 30)
        pipeline.run("candles", "movers", "history")
        expect(page.locator("#pipeline")).to_have_attribute("data-tone", "live")
        page.screenshot(path=file)
        assert watch.complaints() == []
    assert file.stat().st_size > 20_000
