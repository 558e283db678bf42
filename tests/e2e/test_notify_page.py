"""The page "tell me when" of `penstock demo`, in Chromium: registering, a trigger that fires, a notification.

Two parts of Chromium are replaced, because its push service is Google's and no test may need that. The page's
`PushManager` returns a subscription at a push service of ours (tests/providers/push_service.py), to which the server
sends by real Web Push. What arrives there is decrypted, and the DevTools protocol gives it to the page's real service
worker as a push event. Everything else is as people have it.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.providers.browser import TestBrowser
from tests.providers.peers import TRUSTED
from tests.providers.push_service import PushService
from tests.support.browser import PATIENCE, Watch
from tests.support.command import PORTS, Command
from tests.support.process import ServerProcess

pytestmark = pytest.mark.browser

# What people are told to do.
DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "push.md").read_text("utf-8")
(PATH,) = re.findall(r"Open <http://localhost:8080(/\S+)> in a browser", DOCUMENTATION)
(SENTENCE,) = re.findall(r'choose a price for "(.*?)"', DOCUMENTATION)
(BUTTON,) = re.findall(r"press \*(.*?)\*, and", DOCUMENTATION)

PHONE = 375  # pixels across a small one

# Kept over reloads, as by a browser; `null` until the page has subscribed.
REPLACE_PUSH_SERVICE = """
const given = GIVEN;
const keyBytes = (text) => Uint8Array.from(
    atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
const subscription = (key) => ({
    toJSON: () => given,
    options: { applicationServerKey: keyBytes(key).buffer },
    unsubscribe: async () => sessionStorage.removeItem("subscribed"),
});
PushManager.prototype.subscribe = async (options) => {
    if (!options.userVisibleOnly) throw new Error("browsers want userVisibleOnly");
    sessionStorage.setItem("subscribed", options.applicationServerKey);
    return subscription(options.applicationServerKey);
};
PushManager.prototype.getSubscription = async () => {
    const key = sessionStorage.getItem("subscribed");
    return key === null ? null : subscription(key);
};
"""


COUNT_NOTIFICATIONS = """() => {
    const show = ServiceWorkerRegistration.prototype.showNotification;
    self.shown = 0;
    ServiceWorkerRegistration.prototype.showNotification = async function (...given) {
        await show.apply(this, given);
        self.shown += 1;
    };
}"""


class Demo:
    """`penstock demo`, whose site for Web Push sends to a push service of the test."""

    def __init__(self, directory: Path, service: PushService) -> None:
        self.file = directory / "penstock.toml"
        self.file.write_text(
            f'demo.pace = 10\n[push.web.demo]\naddress = "{service.origin}"\ntrusted_ca = "{TRUSTED}"\n'
        )
        self.directory = directory

    def command(self, *ports: str) -> Command:
        options = ["--config", str(self.file), "--data-dir", str(self.directory / "data"), "--log-level", "error"]
        return Command(self.directory, "demo", *(ports or PORTS), "--no-pipeline", *options)


def address(command: Command) -> str:
    """What the demo has printed: the page, the ports, the administrator, and nothing more."""
    first = command.line()
    assert command.line().startswith("penstock: ready  stream=")
    assert command.line().startswith("penstock: administrator admin, password ")
    return first.removeprefix("penstock: the page is at ")


@pytest.fixture
def service() -> Iterator[PushService]:
    with PushService() as running:
        yield running


@pytest.fixture
def demo(tmp_path: Path, service: PushService) -> Iterator[tuple[Command, str]]:
    with Demo(tmp_path, service).command() as command:
        yield command, address(command)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(permissions=["notifications"], viewport={"width": 800, "height": 700}) as opened:
        yield opened


def replace_push_service(watch: Watch, receiver: TestBrowser, service: PushService) -> None:
    given = receiver.subscription(f"{service.origin}/push/1")
    watch.page.add_init_script(REPLACE_PUSH_SERVICE.replace("GIVEN", given))


def open_page(watch: Watch, url: str) -> Page:
    """The page, as soon as it has a price and the server's key."""
    watch.page.goto(url.rstrip("/") + PATH)
    expect(watch.page.locator("#price")).to_have_text(re.compile(r"[\d.]+"), timeout=PATIENCE)
    expect(watch.page.locator("#tell")).to_be_enabled(timeout=PATIENCE)
    return watch.page


def ask_for_passed_price(page: Page) -> None:
    """Until one is passed: the price may go the other way for long, but not from everywhere."""
    deadline = time.monotonic() + PATIENCE / 1_000
    while page.locator("#alarms li[data-status=TRIGGERED]").count() == 0:
        assert time.monotonic() < deadline, page.locator("#alarms").inner_text()
        expect(page.locator("#tell")).to_be_enabled()
        page.locator("#threshold").fill(page.locator("#price").text_content() or "")
        page.locator("#tell").click()
        page.wait_for_timeout(500)


def deliver(context: BrowserContext, page: Page, payload: str) -> None:
    """Have the page's service worker get a push event."""
    devtools = context.new_cdp_session(page)
    found: list[dict[str, Any]] = []
    devtools.on("ServiceWorker.workerRegistrationUpdated", lambda event: found.extend(event["registrations"]))
    devtools.send("ServiceWorker.enable")
    while not found:
        page.wait_for_timeout(20)
    registration = found[-1]
    origin = page.evaluate("location.origin")
    assert registration["scopeURL"] == f"{origin}/notify/"
    message = {"origin": origin, "registrationId": registration["registrationId"], "data": payload}
    devtools.send("ServiceWorker.deliverPushMessage", message)


class Shown:
    """What the page's service worker shows, once it has been registered.

    The browser is asked only when a notification is there, because Chromium forgets one that it is asked about while it
    is about to show it.
    """

    def __init__(self, context: BrowserContext) -> None:
        (self._worker,) = context.service_workers
        self._worker.evaluate(COUNT_NOTIFICATIONS)

    def wait(self, count: int = 1) -> list[dict[str, str]]:
        """All notifications, as soon as there are so many."""
        deadline = time.monotonic() + PATIENCE / 1_000
        while self._worker.evaluate("self.shown") < count:
            assert time.monotonic() < deadline, "no notification"
            threading.Event().wait(0.05)
        ask = "async () => (await self.registration.getNotifications()).map(({ title, body }) => ({ title, body }))"
        found: list[dict[str, str]] = self._worker.evaluate(ask)
        return found


def test_a_price_that_is_passed_is_told_by_a_notification_of_the_browser(
    demo: tuple[Command, str], context: BrowserContext, service: PushService
) -> None:
    watch, receiver = Watch(context), TestBrowser()
    replace_push_service(watch, receiver, service)
    page = open_page(watch, demo[1])
    expect(page.locator("#wish")).to_contain_text(SENTENCE)
    page.locator("#threshold").fill("1000")
    page.get_by_role("button", name=BUTTON, exact=True).click()
    waiting = page.locator("#alarms li[data-status=ACTIVE]")
    expect(waiting).to_have_text(re.compile("Ations Europe above 1000: waiting"), timeout=PATIENCE)

    ask_for_passed_price(page)
    told = page.locator("#alarms li[data-status=TRIGGERED]").first
    expect(told).to_have_text(re.compile("Ations Europe (above|below) [0-9.]+: reached at "))

    sent = service.receive()
    assert (sent.method, sent.path) == ("POST", "/push/1")
    service.check_signature(sent, page.evaluate("sessionStorage.getItem('subscribed')"))
    payload = receiver.read(sent.body).decode()
    title = json.loads(payload)["title"]
    assert re.fullmatch(r"Ations Europe is at [\d.]+", title)
    notifications = Shown(context)
    deliver(context, page, payload)
    assert notifications.wait() == [{"title": title, "body": "You asked Penstock to tell you."}]
    expect(page.locator("#notice")).to_be_hidden()
    assert watch.complaints() == []


def test_what_was_asked_for_is_there_again_after_a_reload_and_can_be_removed(
    demo: tuple[Command, str], context: BrowserContext, service: PushService
) -> None:
    watch = Watch(context)
    replace_push_service(watch, TestBrowser(), service)
    page = open_page(watch, demo[1])
    for threshold in ("1000", "2000", "1000"):
        page.locator("#threshold").fill(threshold)
        page.locator("#tell").click()
        expect(page.locator("#alarms")).to_contain_text(f"above {threshold}: waiting", timeout=PATIENCE)
        expect(page.locator("#tell")).to_be_enabled()
    # Asked for twice is asked for once.
    expect(page.locator("#alarms li")).to_have_count(2)
    page.reload()
    expect(page.locator("#alarms li")).to_have_count(2, timeout=PATIENCE)
    page.locator("#alarms li", has_text="above 1000").get_by_role("button").click()
    expect(page.locator("#alarms li")).to_have_count(1, timeout=PATIENCE)
    expect(page.locator("#alarms")).to_contain_text("above 2000")
    page.get_by_role("button", name="Remove").click()
    expect(page.locator("#none")).to_be_visible(timeout=PATIENCE)
    assert watch.complaints() == []


def test_the_key_and_what_was_asked_for_outlive_the_server(
    tmp_path: Path, context: BrowserContext, service: PushService
) -> None:
    demo = Demo(tmp_path, service)
    watch = Watch(context)
    replace_push_service(watch, TestBrowser(), service)
    with demo.command() as command:
        url = address(command)
        page = open_page(watch, url)
        page.locator("#threshold").fill("1000")
        page.locator("#tell").click()
        expect(page.locator("#alarms li")).to_have_count(1, timeout=PATIENCE)
        command.stop()
    expect(page.locator("#notice")).to_contain_text("There is no connection to the server", timeout=PATIENCE)
    expect(page.locator("#alarms li")).to_have_count(0)
    port = url.rstrip("/").rpartition(":")[2]
    with demo.command("--port", port, "--api-port", "0") as command:
        assert address(command) == url
        # With another key the browser would not count as known.
        expect(page.locator("#alarms li")).to_have_text(re.compile("above 1000: waiting"), timeout=PATIENCE)
        expect(page.locator("#notice")).to_be_hidden()
    assert watch.complaints(server_was_away=True) == []


def test_the_worker_shows_whatever_arrives(
    demo: tuple[Command, str], context: BrowserContext, service: PushService
) -> None:
    watch = Watch(context)
    replace_push_service(watch, TestBrowser(), service)
    page = open_page(watch, demo[1])
    page.locator("#threshold").fill("1000")
    page.locator("#tell").click()
    expect(page.locator("#alarms li")).to_have_count(1, timeout=PATIENCE)
    notifications = Shown(context)
    deliver(context, page, '{"body":"no title"}')
    assert notifications.wait() == [{"title": "Penstock", "body": "no title"}]
    deliver(context, page, "no JSON")
    assert {"title": "Penstock", "body": "no JSON"} in notifications.wait(2)
    assert watch.complaints() == []


def test_a_browser_that_cannot_subscribe_is_told_why(demo: tuple[Command, str], context: BrowserContext) -> None:
    watch = Watch(context)
    refuse = "async () => { throw new DOMException('no push service', 'AbortError'); }"
    watch.page.add_init_script(f"PushManager.prototype.subscribe = {refuse}")
    page = open_page(watch, demo[1])
    page.locator("#tell").click()
    expected = "The browser could not subscribe at its push service: no push service"
    expect(page.locator("#notice")).to_have_text(expected, timeout=PATIENCE)
    expect(page.locator("#tell")).to_be_enabled()
    assert watch.complaints() == []


def test_without_permission_nothing_is_asked_for(demo: tuple[Command, str], browser: Browser) -> None:
    with browser.new_context() as context:
        watch = Watch(context)
        watch.page.add_init_script("Notification.requestPermission = async () => 'denied'")
        page = open_page(watch, demo[1])
        page.locator("#tell").click()
        expect(page.locator("#notice")).to_contain_text("Notifications of this page are not allowed", timeout=PATIENCE)
        assert watch.complaints() == []


def test_a_server_without_push_notifications_says_so(process: ServerProcess, context: BrowserContext) -> None:
    watch = Watch(context)
    watch.page.goto(f"{process.url}/notify/")
    expected = "This server sends no notifications to browsers: "
    expect(watch.page.locator("#notice")).to_contain_text(expected, timeout=PATIENCE)
    expect(watch.page.locator("#price")).to_have_text(re.compile(r"[\d.]+"), timeout=PATIENCE)
    expect(watch.page.locator("#tell")).to_be_disabled()
    assert watch.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it_in_light_and_in_the_dark(
    demo: tuple[Command, str], browser: Browser, service: PushService, scheme: Any
) -> None:
    with browser.new_context(
        viewport={"width": PHONE, "height": 667}, is_mobile=True, color_scheme=scheme, permissions=["notifications"]
    ) as context:
        watch = Watch(context)
        replace_push_service(watch, TestBrowser(), service)
        watch.page.goto(demo[1])
        watch.page.get_by_role("link", name="Get a notification").click()
        page = watch.page
        expect(page.locator("#tell")).to_be_enabled(timeout=PATIENCE)
        page.locator("#threshold").fill("1000")
        page.locator("#tell").click()
        expect(page.locator("#alarms li")).to_have_count(1, timeout=PATIENCE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
        for part in ("#stock", "#threshold", "#tell", "#price", "#alarms button"):
            box = page.locator(part).bounding_box()
            assert box is not None
            assert 0 <= box["x"] < box["x"] + box["width"] <= PHONE
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(246, 247, 247)", "dark": "rgb(15, 21, 22)"}[scheme]
        assert watch.complaints() == []
