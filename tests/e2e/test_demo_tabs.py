"""The demo's page with its tabs, in Chromium: each on a desktop, a phone and in the dark, with one server for all.

Not here: more about the tab Market (test_page.py, test_page_analytics.py). The selectors are those of web/README.md.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from penstock.config import Config
from penstock.config.schema.server import DemoSection, ServerSection
from penstock.config.schema.tlex import TlexSection
from penstock.devices.company import Devices
from tests.support.administration import write_users
from tests.support.axe import barriers
from tests.support.browser import PATIENCE, Watch
from tests.support.process import ServerProcess

# All tabs one after another, three times: on a machine with other work that takes its time.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

TABS = ["market", "portfolio", "chat", "twins", "traffic", "playground"]
# What `penstock demo` sets, with a lively market.
DEMO = {"demo.pace": 10, "demo.traffic": True, "tlex.enabled": True, "tlex.port": 0}
LIVE = re.compile("^CONNECTED:WS-STREAMING$")
PHONE = 375  # pixels across a small one

# Bytes, compressed, of everything that the first tab needs.
FIRST_LOAD = 150_000


@contextmanager
def demo(directory: Path) -> Iterator[ServerProcess]:
    """A server with the simulated devices beside it and an administrator, as `penstock demo` has them."""
    users = directory / "users"
    write_users(users, {"root": "admin"})
    users.chmod(0o600)
    with ServerProcess(directory, {**DEMO, "admin.users": str(users)}) as process:
        config = Config(
            server=ServerSection(data_dir=str(directory / "data")),
            tlex=TlexSection(enabled=True),
            demo=DemoSection(traffic=True),
        )
        devices = Devices(config)
        devices.start(f"http://{process.host}:{process.api_port}")
        try:
            yield process
        finally:
            devices.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with demo(tmp_path_factory.mktemp("demo")) as process:
        yield process


@pytest.fixture(params=["desktop", "dark", "phone"])
def context(request: pytest.FixtureRequest, browser: Browser) -> Iterator[BrowserContext]:
    if request.param == "phone":
        made = browser.new_context(viewport={"width": PHONE, "height": 667}, is_mobile=True, has_touch=True)
    else:
        made = browser.new_context(
            viewport={"width": 1280, "height": 900}, color_scheme="dark" if request.param == "dark" else "light"
        )
    with made:
        yield made


def open_tab(page: Page, process: ServerProcess, name: str) -> None:
    page.goto(f"{process.url.replace('127.0.0.1', 'localhost')}/{name}/")
    is_live(page, name)


def is_live(page: Page, name: str) -> None:
    expect(page.locator("#view")).to_have_attribute("data-open", name, timeout=PATIENCE)
    expect(page.locator("#status")).to_have_attribute("data-status", LIVE, timeout=PATIENCE)


def has_content(page: Page, name: str) -> None:
    """What this tab shows has come from the server."""
    rows = {
        "market": "#stocks [data-item=item2] [data-field=last_price]:not(:empty)",
        "portfolio": "#holdings [data-key=item4] [data-holding=price]:not(:empty)",
        "chat": "#say",
        "twins": "#tree [data-pointer='/features/climate/properties/temperature']",
        "traffic": "#map [data-controller=PSDM0006] .lamp[data-signal=red]",
        "playground": "#lines [data-tag=U]",
    }
    expect(page.locator(rows[name]).first).to_be_visible(timeout=PATIENCE)


def test_every_tab_shows_its_data_fits_the_screen_and_has_no_barriers(
    served: ServerProcess, context: BrowserContext
) -> None:
    watch = Watch(context)
    page = watch.page
    open_tab(page, served, TABS[0])
    assert page.viewport_size is not None
    width = page.viewport_size["width"]
    for name in TABS:
        page.locator(f"#tabs [data-tab={name}]").click()
        is_live(page, name)
        has_content(page, name)
        assert page.url.endswith(f"/{name}/")
        expect(page.locator(f"#tabs [data-tab={name}]")).to_have_attribute("aria-current", "page")
        expect(page.locator("#rate")).to_be_visible()
        # A phone would widen its window for what does not fit.
        assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [width, width], name
        inner = page.locator("main").bounding_box()
        strip = page.locator(".strip-row").evaluate("it => it.getBoundingClientRect().left + it.scrollWidth")
        assert inner is not None
        assert strip <= inner["x"] + inner["width"], name
        box = page.locator("#view h2").bounding_box()
        assert box is not None
        assert box["y"] < 300, f"{name} begins below the first screen"
        assert barriers(page) == [], name
    page.go_back()
    is_live(page, TABS[-2])
    assert watch.complaints() == []


def test_each_tab_is_a_page_of_its_own_with_its_source(served: ServerProcess, watch: Watch) -> None:
    for name in TABS:
        open_tab(watch.page, served, name)
        has_content(watch.page, name)
        watch.page.locator("#source summary").click()
        expect(watch.page.locator("#source-code")).to_contain_text("export function open(view: HTMLElement")
    assert watch.complaints() == []


def test_dashboard_and_documentation_are_a_link_away(served: ServerProcess, watch: Watch) -> None:
    for name in TABS:
        open_tab(watch.page, served, name)
        board = watch.page.locator("#dashboard-link")
        expect(board).to_have_attribute("href", f"http://localhost:{served.api_port}/dashboard/")
        expect(watch.page.locator("#docs-link")).to_have_js_property("href", f"http://localhost:{served.port}/docs/")
    board.click()
    expect(watch.page.get_by_label("Password")).to_be_visible()


def focus(page: Page, place: str) -> None:
    """Press the Tab key until it is there, as somebody without a mouse does."""
    wanted = page.locator(place)
    for _ in range(60):
        if wanted.evaluate("it => it === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the Tab key does not lead to {place}")


def test_a_keyboard_is_enough(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "market")
    focus(page, ".skip")
    page.keyboard.press("Enter")
    focus(page, "#frequency")
    for name in TABS:
        page.locator("body").evaluate("() => document.activeElement.blur()")
        focus(page, f"#tabs [data-tab={name}]")
        page.keyboard.press("Enter")
        is_live(page, name)
        has_content(page, name)
    open_tab(page, served, "portfolio")
    has_content(page, "portfolio")
    focus(page, "#order-quantity")
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    expect(page.locator("#order-answer")).to_contain_text("Bought", timeout=PATIENCE)
    focus(page, "#slow")
    page.keyboard.press("Home")
    expect(page.locator("#slow-words")).to_have_text("1 kbit/s")
    focus(page, "#source summary")
    page.keyboard.press("Enter")
    expect(page.locator("#source-code")).to_contain_text("export function open")
    focus(page, "#cut")
    page.keyboard.press("Enter")
    expect(page.locator("#cut-report")).to_contain_text("Nothing can reach this page")
    expect(page.locator("#cut-report")).to_contain_text(", 0 lost.", timeout=PATIENCE)


def test_prices_stand_below_one_another_digit_by_digit(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "market")
    has_content(page, "market")
    cells = page.locator("#stocks tbody [data-field=last_price]")
    for text in cells.all_inner_texts():
        assert re.fullmatch(r"\d+\.\d\d", text), text
    look = "each => [getComputedStyle(each).fontVariantNumeric, each.getBoundingClientRect().right]"
    assert len({tuple(each) for each in cells.evaluate_all(f"all => all.map({look})")}) == 1


def test_the_first_load_is_small(served: ServerProcess, watch: Watch) -> None:
    sizes: dict[str, int] = {}
    watch.page.on("response", lambda answer: sizes.update({answer.url: int(answer.headers.get("content-length", 0))}))
    open_tab(watch.page, served, "market")
    total = sum(sizes.values())
    print(f"first load: {total} bytes in {len(sizes)} files")
    assert 20_000 < total < FIRST_LOAD


def test_after_a_cut_nothing_is_lost_and_the_page_counts_it(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "market")
    has_content(page, "market")
    page.locator("#cut").click()
    expect(page.locator("#cut-report")).to_contain_text("Nothing can reach this page")
    expect(page.locator("#cut-report")).to_have_text(
        re.compile(r"Back after \d+\.\d s, in the same session: [1-9]\d* changes had waited at the server, .*0 lost\."),
        timeout=PATIENCE,
    )
    is_live(page, "market")
    assert watch.complaints() == []


def test_a_slow_line_brings_fewer_updates_and_bytes_are_compared_with_json(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "market")
    page.wait_for_function("() => Number(document.querySelector('#rate').textContent) > 60")
    expect(page.locator("#bytes-ratio")).to_have_text(re.compile(r"[\d.]+× less"))
    page.locator("#slow").fill("1")
    expect(page.locator("#slow-words")).to_have_text("2 kbit/s")
    page.wait_for_function("() => Number(document.querySelector('#rate').textContent) < 30", timeout=PATIENCE)
    page.locator("#slow").fill("7")
    page.wait_for_function("() => Number(document.querySelector('#rate').textContent) > 60", timeout=PATIENCE)


def test_two_windows_talk_and_markup_stays_text(served: ServerProcess, browser: Browser) -> None:
    with browser.new_context() as one, browser.new_context() as other:
        first, second = Watch(one), Watch(other)
        for watch, nick in ((first, "Ada"), (second, "<b>Bob</b>")):
            open_tab(watch.page, served, "chat")
            watch.page.locator("#nick").fill(nick)
            watch.page.locator("#nick").blur()
            is_live(watch.page, "chat")
        attack = "<img src=x onerror='window.hacked=1'>&lt;"
        first.page.locator("#text").fill("Hello, Bob")
        first.page.locator("#text").press("Enter")
        expect(second.page.locator("#messages li").last).to_contain_text("Hello, Bob", timeout=PATIENCE)
        expect(second.page.locator("#messages li .who").last).to_have_text("Ada")
        second.page.locator("#text").fill(attack)
        second.page.locator("#text").press("Enter")
        for watch in (first, second):
            expect(watch.page.locator("#messages li .what").last).to_have_text(attack, timeout=PATIENCE)
            expect(watch.page.locator("#messages li .who").last).to_have_text("<b>Bob</b>")
            assert watch.page.evaluate("window.hacked") is None
            assert watch.page.locator("#messages img").count() == 0
            assert watch.complaints() == []
        assert second.page.locator("#messages li").last.get_attribute("class") == "mine"


def test_shares_are_bought_and_sold_and_refusals_are_told(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "portfolio")
    has_content(page, "portfolio")
    page.locator("#order-stock").select_option("item25")
    page.locator("#order-quantity").fill("70")
    page.locator("button[value=BUY]").click()
    expect(page.locator("[data-key=item25] [data-holding=quantity]")).to_have_text("70", timeout=PATIENCE)
    # The price has come by the second level, and the value is made of both.
    expect(page.locator("[data-key=item25] [data-holding=price]")).to_have_text(re.compile(r"\d+\.\d\d"))
    expect(page.locator("#order-answer")).to_have_text("Bought 70 of Ripley Software.")
    page.locator("button[value=SELL]").click()
    expect(page.locator("[data-key=item25]")).to_have_count(0)
    page.locator("button[value=SELL]").click()
    expect(page.locator("#order-answer")).to_have_text("Refused: There are no shares of item25 to sell")
    page.locator("#order-quantity").fill("many")
    page.locator("button[value=BUY]").click()
    expect(page.locator("#order-answer")).to_contain_text("Refused: Quantity 'many': expected 1 to")
    assert watch.complaints() == []


def test_the_playground_shows_lines_beside_their_meaning_and_says_what_is_refused(
    served: ServerProcess, watch: Watch
) -> None:
    page = watch.page
    open_tab(page, served, "playground")
    update = page.locator("#lines [data-tag=U]").first
    expect(update).to_have_text(re.compile(r"U,1,\d,.*item\d+.*: .*last_price = [\d.]+"), timeout=PATIENCE)
    expect(page.locator("#lines [data-tag=SUBOK]")).to_contain_text("Subscription 1: 3 items with 4 fields each")
    page.locator("#ask-items").fill("nothing")
    page.locator("#ask button[type=submit]").click()
    expect(page.locator("#ask-answer")).to_contain_text("STOCKS has no item nothing", timeout=PATIENCE)
    page.get_by_role("button", name="Rows").click()
    expect(page.locator("#lines [data-tag=U]").first).to_contain_text("portfolio1", timeout=PATIENCE)
    page.locator("#ask-frequency").fill("often")
    page.locator("#ask button[type=submit]").click()
    expect(page.locator("#ask-answer")).to_contain_text("Not possible:")
    assert watch.complaints() == []


def test_things_are_found_by_a_part_of_their_id_and_by_a_filter(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "twins")
    expect(page.locator("#things [data-thing]")).to_have_count(3, timeout=PATIENCE)
    for text, found in (
        ("turb", "penstock.demo:turbine"),
        ('eq(attributes/crop,"tomatoes")', "penstock.demo:greenhouse"),
    ):
        page.locator("#search-text").fill(text)
        page.locator("#search-text").press("Enter")
        expect(page.locator("#things [data-thing]")).to_have_count(1, timeout=PATIENCE)
        expect(page.locator("#things [data-thing]")).to_have_attribute("data-thing", found)
    assert watch.complaints() == []


def test_the_printed_command_switches_the_lamp_on(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "twins")
    expect(page.locator("#lamp-curl")).to_contain_text("curl", timeout=PATIENCE)
    expect(page.locator("#lamp")).to_have_attribute("data-on", "false")
    command = shlex.split(page.locator("#lamp-curl").text_content() or "")
    subprocess.run([*command, "--silent", "--fail", "--noproxy", "*"], check=True, timeout=30)
    expect(page.locator("#lamp")).to_have_attribute("data-on", "true", timeout=PATIENCE)
    page.locator("#lamp-switch").click()
    expect(page.locator("#lamp")).to_have_attribute("data-on", "false", timeout=PATIENCE)
    assert watch.complaints() == []


def test_a_thing_is_found_edited_seen_to_change_and_looked_at_in_its_past(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "twins")
    has_content(page, "twins")
    page.locator("#search-text").fill("lamp")
    page.locator("#search-text").press("Enter")
    expect(page.locator("#things button")).to_have_text(["penstock.demo:lamp"], timeout=PATIENCE)
    page.locator("#things button").click()
    place = page.locator("#tree [data-pointer='/attributes/place']")
    expect(place).to_have_value("Turbine House, door", timeout=PATIENCE)
    attack = "<img src=x onerror='window.hacked=1'>"
    place.fill(attack)
    place.press("Enter")
    expect(page.locator("#edit-answer")).to_contain_text("/attributes/place is now", timeout=PATIENCE)
    expect(place).to_have_value(attack)
    assert page.evaluate("window.hacked") is None
    # The first revision, as it was made.
    page.locator("#moment").fill("1")
    expect(page.locator("#tree span[data-pointer='/attributes/place']")).to_have_text("Turbine House, door")
    expect(page.locator("#moment-words")).to_contain_text("revision 1")
    page.locator("#now").click()
    expect(place).to_have_value(attack)
    place.fill("Turbine House, door")
    place.press("Enter")
    expect(page.locator("#edit-answer")).to_contain_text("Turbine House", timeout=PATIENCE)
    # The greenhouse reports by itself.
    page.locator("#search-text").fill("green")
    page.locator("#search-text").press("Enter")
    page.locator("#things button", has_text="greenhouse").click()
    revision = page.locator("#thing-revision")
    expect(revision).to_have_text(re.compile(r"revision \d+"), timeout=PATIENCE)
    expect(revision).not_to_have_text(revision.text_content() or "", timeout=PATIENCE)
    assert watch.complaints() == []


def test_signals_change_as_their_controllers_say(served: ServerProcess, watch: Watch) -> None:
    page = watch.page
    open_tab(page, served, "traffic")
    has_content(page, "traffic")
    expect(page.locator("#controllers tbody tr")).to_have_count(6, timeout=PATIENCE)
    expect(page.locator("#controllers tbody tr").first).to_contain_text(re.compile(r"Mill Bridge.*/s.*ms"))
    lamp = page.locator("#map [data-controller=PSDM0004] [data-approach=N]")
    before = lamp.get_attribute("data-signal") or ""
    expect(lamp).not_to_have_attribute("data-signal", before, timeout=2 * PATIENCE)
    expect(page.locator("#payload")).to_contain_text('"signals":')
    assert watch.complaints() == []


def test_every_tab_survives_a_server_that_is_killed(tmp_path: Path, browser: Browser) -> None:
    with demo(tmp_path) as process, browser.new_context() as context:
        watches = {name: Watch(context) for name in TABS}
        for name, watch in watches.items():
            open_tab(watch.page, process, name)
            watch.page.evaluate("window.loadedOnce = true")
        process.kill()
        for watch in watches.values():
            expect(watch.page.locator("#status")).not_to_have_attribute("data-tone", "live", timeout=PATIENCE)
        process.start()
        for name, watch in watches.items():
            watch.page.bring_to_front()
            is_live(watch.page, name)
            has_content(watch.page, name)
            assert watch.page.evaluate("window.loadedOnce"), f"{name} has been loaded again"
            expect(watch.page.locator("#notice")).to_be_hidden()
            assert watch.complaints(server_was_away=True) == [], name
