"""`make screenshots`: the pictures of the docs, made by Chromium from a server with simulated devices.

The pipeline is played, as in test_page_analytics.py: a picture does not need Spark. Names choose some of the pictures.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

from tests.e2e.test_demo_tabs import demo, has_content, open_tab
from tests.e2e.test_page_analytics import Pipeline, expect_candles
from tests.support.browser import PATIENCE, Watch, chromium
from tests.support.moving_picture import animated
from tests.support.process import ServerProcess

DOCS = Path(__file__).parents[2] / "docs"
SIZE = ViewportSize(width=1280, height=762)

# The picture that moves: smaller, because the README shows it to everybody.
SMALL = ViewportSize(width=960, height=540)
# Tabs, and what of them is to be seen.
TOUR = {"market": "#analytics", "twins": "#lamp-box", "traffic": "#map"}
FRAMES = 5
MILLIS = 500

# Until the strip has something to show of the seconds behind it.
FLOW_MILLIS = 5_000


# Its price in the market is about that of the candles.
CANDLES_OF = "item1"


def market(page: Page, process: ServerProcess) -> None:
    pipeline = Pipeline(process)
    pipeline.run("candles", "movers", "history")
    pipeline.candle(0)  # There is a choice when there is a candle.
    page.locator("#chart-stock").select_option(CANDLES_OF)
    for number in range(32):
        pipeline.candle(number, CANDLES_OF)
    names = ["Ripley Software", "Upton Telecom", "Yarrow Robotics", "Keld Pharma", "Castor Bricks", "Lathom Glass"]
    for number, name in enumerate(names):
        price = page.locator("#stocks tr", has_text=name).locator("[data-field=last_price]").inner_text()
        pipeline.mover(f"item{number + 1}", name, float(price), 6.5 - 2.6 * number)
    pipeline.run("candles", "movers", "history")
    expect_candles(page, 32)


def twins(page: Page, process: ServerProcess) -> None:
    page.locator("#lamp-switch").click()
    expect(page.locator("#lamp")).to_have_attribute("data-on", "true", timeout=PATIENCE)


def traffic(page: Page, process: ServerProcess) -> None:
    expect(page.locator("#map [data-signal=green]").first).to_be_visible(timeout=PATIENCE)
    expect(page.locator("#controllers tbody tr")).to_have_count(6, timeout=PATIENCE)


def nothing_more(page: Page, process: ServerProcess) -> None:
    """What the tab shows by itself is enough."""


# By name of the file: the tab, and what to wait for.
PICTURES: dict[str, tuple[str, Callable[[Page, ServerProcess], None]]] = {
    "page": ("market", market),
    "demo-twins": ("twins", twins),
    "demo-traffic": ("traffic", traffic),
    "demo-playground": ("playground", nothing_more),
}


def tour(context: BrowserContext, process: ServerProcess) -> bytes:
    """A few seconds of each tab; between two frames of the market and of the lights something has changed."""
    prepare = dict(PICTURES.values())
    frames: list[tuple[bytes, int]] = []
    for tab, place in TOUR.items():
        page = Watch(context).page
        page.set_viewport_size(SMALL)
        open_tab(page, process, tab)
        has_content(page, tab)
        prepare[tab](page, process)
        page.locator(place).evaluate("place => place.scrollIntoView()")
        page.wait_for_timeout(FLOW_MILLIS)
        for _ in range(FRAMES):
            frames.append((page.screenshot(), MILLIS))
            page.wait_for_timeout(MILLIS)
        page.close()
    return animated(frames)


def main(names: list[str]) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        demo(Path(directory)) as process,
        chromium() as browser,
        browser.new_context(viewport=SIZE, color_scheme="light") as context,
    ):
        for name, (tab, prepare) in PICTURES.items():
            if names and name not in names:
                continue
            page = Watch(context).page
            open_tab(page, process, tab)
            has_content(page, tab)
            prepare(page, process)
            page.wait_for_timeout(FLOW_MILLIS)
            page.screenshot(path=DOCS / f"{name}.png")
            page.close()
            print(f"docs/{name}.png")
        if not names or "demo" in names:
            (DOCS / "demo.png").write_bytes(tour(context, process))
            print("docs/demo.png")


if __name__ == "__main__":
    main(sys.argv[1:])
