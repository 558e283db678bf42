"""The page at `/`, in Chromium, against a server process.

Not here: the page's code (web/), whose README.md says what these tests may rely on.
`PENSTOCK_SCREENSHOT=docs/page.png pytest tests/e2e/test_page.py -k picture` makes the picture of the README again.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from tests.support.browser import PATIENCE, Watch
from tests.support.curl import CurlStream
from tests.support.process import ServerProcess

pytestmark = pytest.mark.browser

ITEMS = [f"item{number}" for number in range(1, 31)]
TRANSPORTS = ["WS-STREAMING", "HTTP-STREAMING", "WS-POLLING", "HTTP-POLLING"]
LIVELY = {"demo.pace": 10}
PHONE = 375  # pixels across a small one

PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
PICTURE_WIDTH = 1280
PICTURE_HEIGHT = 762
PICTURE_LIMIT = 200_000  # bytes: it is in the repository, and everybody who opens the README loads it


def open_page(watch: Watch, process: ServerProcess, query: str = "") -> Page:
    """The page, as soon as it is live and every row has its name."""
    watch.page.goto(f"{process.url}/{query}")
    wait_until_live(watch.page)
    return watch.page


def wait_until_live(page: Page) -> None:
    expect(page.locator("#stocks")).to_have_attribute("data-stale", "false", timeout=PATIENCE)
    page.wait_for_function(
        """(count) => {
            const names = [...document.querySelectorAll("tr[data-item] [data-field=stock_name]")];
            return names.length === count && names.every((name) => name.textContent !== "");
        }""",
        arg=len(ITEMS),
    )


def cell(page: Page, item: str, field: str) -> Locator:
    return page.locator(f"tr[data-item={item}] [data-field={field}]")


def wait_for_change(page: Page, item: str) -> None:
    """Wait until the item's time or price is another than now."""
    before = [cell(page, item, field).text_content() for field in ("time", "last_price")]
    page.wait_for_function(
        """([item, time, price]) => {
            const text = (field) => document.querySelector(`tr[data-item=${item}] [data-field=${field}]`).textContent;
            return text("time") !== time || text("last_price") !== price;
        }""",
        arg=[item, *before],
    )


def wait_for_rate(page: Page, least: int, most: int) -> None:
    """Wait until the page counts this many updates a second."""
    page.wait_for_function(
        """([least, most]) => {
            const rate = Number(document.querySelector("#rate").textContent);
            return least <= rate && rate <= most;
        }""",
        arg=[least, most],
    )


@pytest.mark.config(LIVELY)
def test_thirty_stocks_are_shown_and_move(process: ServerProcess, watch: Watch) -> None:
    page = open_page(watch, process)
    assert [row.get_attribute("data-item") for row in page.locator("tr[data-item]").all()] == ITEMS
    assert cell(page, "item1", "stock_name").text_content() == "Anduct"
    names = {cell(page, item, "stock_name").text_content() for item in ITEMS}
    assert len(names) == len(ITEMS)
    for item in ITEMS:
        assert re.fullmatch(r"\d+(\.\d+)?", cell(page, item, "last_price").text_content() or "")
        assert re.fullmatch(r"\d\d:\d\d:\d\d", cell(page, item, "time").text_content() or "")
    wait_for_change(page, "item2")
    wait_for_change(page, "item3")
    expect(page.locator("#server-name")).to_have_text("Penstock")
    wait_for_rate(page, 1, 10_000)
    expect(page.locator("#notice")).to_be_hidden()
    assert watch.complaints() == []


@pytest.mark.config(LIVELY)
def test_the_page_chooses_websocket_streaming_by_itself(process: ServerProcess, watch: Watch) -> None:
    page = open_page(watch, process)
    expect(page.locator("#transport")).to_have_value("auto")
    expect(page.locator("#status")).to_have_attribute("data-status", "CONNECTED:WS-STREAMING")
    expect(page.locator("#status")).to_contain_text("Live over WebSocket")
    assert watch.complaints() == []


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.config(LIVELY)
def test_a_transport_can_be_forced_in_the_address(process: ServerProcess, watch: Watch, transport: str) -> None:
    page = open_page(watch, process, f"?transport={transport}")
    expect(page.locator("#transport")).to_have_value(transport)
    expect(page.locator("#status")).to_have_attribute("data-status", f"CONNECTED:{transport}")
    wait_for_change(page, "item2")
    assert watch.complaints() == []


@pytest.mark.config(LIVELY)
def test_another_transport_can_be_chosen_on_the_page(process: ServerProcess, watch: Watch) -> None:
    page = open_page(watch, process)
    for transport in reversed(TRANSPORTS):
        page.locator("#transport").select_option(transport)
        expect(page.locator("#status")).to_have_attribute("data-status", f"CONNECTED:{transport}", timeout=PATIENCE)
        assert page.url == f"{process.url}/?transport={transport}"
        wait_for_change(page, "item2")
    assert watch.complaints() == []


@pytest.mark.config({"demo.pace": 20})
def test_fewer_updates_can_be_asked_for(process: ServerProcess, watch: Watch) -> None:
    page = open_page(watch, process)
    wait_for_rate(page, 100, 10_000)
    page.locator("#frequency").select_option("1")
    # Thirty stocks, one update a second each, and one more of each where a second has been a little longer.
    wait_for_rate(page, 1, 60)
    wait_for_change(page, "item2")
    assert watch.complaints() == []


def test_an_unknown_transport_in_the_address_is_told(process: ServerProcess, watch: Watch) -> None:
    page = open_page(watch, process, "?transport=PIGEON")
    expect(page.locator("#notice")).to_contain_text("transport=PIGEON in the address is not one of auto, WS-STREAMING")
    expect(page.locator("#transport")).to_have_value("auto")
    assert watch.complaints() == []


@pytest.mark.config({"demo.enabled": False})
def test_a_server_without_the_demo_says_so_on_the_page(process: ServerProcess, watch: Watch) -> None:
    watch.page.goto(process.url)
    expect(watch.page.locator("#notice")).to_contain_text("Requested Adapter Set not available (code 2)")
    expect(watch.page.locator("#status")).to_have_attribute("data-status", "DISCONNECTED")
    expect(watch.page.locator("#stocks")).to_have_attribute("data-stale", "true")
    assert watch.complaints() == []


@pytest.mark.config(LIVELY)
def test_a_phone_shows_name_price_and_change_without_scrolling_sideways(
    process: ServerProcess, browser: Browser
) -> None:
    with browser.new_context(
        viewport={"width": PHONE, "height": 667}, is_mobile=True, has_touch=True, device_scale_factor=2
    ) as context:
        watch = Watch(context)
        page = open_page(watch, process)
        assert page.evaluate("window.innerWidth") == PHONE
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
        for field in ("stock_name", "last_price", "pct_change"):
            expect(cell(page, "item1", field)).to_be_visible()
            boxes = page.locator(f"tr[data-item] [data-field={field}]").evaluate_all(
                "(cells) => cells.map((cell) => cell.getBoundingClientRect()).map((box) => [box.left, box.right])"
            )
            assert len(boxes) == len(ITEMS)
            assert all(0 <= left < right <= PHONE for left, right in boxes)
        expect(page.locator("#status")).to_be_visible()
        wait_for_change(page, "item2")
        assert watch.complaints() == []


@pytest.mark.parametrize(
    ("end", "transport"), [("stop", "auto"), ("kill", "auto"), ("kill", "HTTP-STREAMING"), ("stop", "HTTP-POLLING")]
)
@pytest.mark.config(LIVELY)
def test_the_page_survives_a_restart_of_the_server(
    process: ServerProcess, watch: Watch, end: str, transport: str
) -> None:
    page = open_page(watch, process, f"?transport={transport}")
    page.evaluate("window.loadedOnce = true")
    if end == "stop":
        process.stop()
    else:
        process.kill()
    expect(page.locator("#stocks")).to_have_attribute("data-stale", "true", timeout=PATIENCE)
    expect(page.locator("#status")).to_have_attribute("data-status", re.compile("DISCONNECTED:|CONNECTING|STALLED"))
    process.start()
    wait_until_live(page)
    wait_for_change(page, "item2")
    assert page.evaluate("window.loadedOnce"), "the page has been loaded again"
    expect(page.locator("#notice")).to_be_hidden()
    assert watch.complaints(server_was_away=True) == []


@pytest.mark.config(LIVELY)
def test_the_command_below_the_table_reads_the_same_stream(process: ServerProcess, watch: Watch) -> None:
    page = open_page(watch, process)
    command = page.locator("#curl").text_content() or ""
    with CurlStream(shlex.split(command)) as stream:
        assert re.fullmatch(r"U,1,1,Ations Europe\|\d\d:\d\d:\d\d\|[\d.]+", stream.wait_for("U"))


def png_size(file: Path) -> tuple[int, int]:
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.config({"demo.pace": 3})
def test_the_picture_of_the_page_can_be_made(process: ServerProcess, browser: Browser, tmp_path: Path) -> None:
    file = Path(os.environ.get("PENSTOCK_SCREENSHOT", tmp_path / "page.png"))
    size = ViewportSize(width=PICTURE_WIDTH, height=PICTURE_HEIGHT)
    with browser.new_context(viewport=size, color_scheme="light") as context:
        watch = Watch(context)
        page = open_page(watch, process)
        # Late enough for the figures of the day to differ from one another, with some cells just changed.
        wait_for_rate(page, 10, 10_000)
        wait_for_change(page, "item5")
        page.screenshot(path=file)
    assert png_size(file) == (PICTURE_WIDTH, PICTURE_HEIGHT)
    assert 20_000 < file.stat().st_size <= PICTURE_LIMIT


def test_the_picture_in_the_readme_is_there_and_small() -> None:
    assert png_size(PICTURE)[0] == PICTURE_WIDTH
    assert PICTURE.stat().st_size <= PICTURE_LIMIT
