"""The dashboard at `/dashboard/` of the API port, in Chromium: every tab, what administrators do, and hostile names.

Not here: the page's code (web/src/dashboard), whose README.md says what these tests may rely on.
`PENSTOCK_SCREENSHOT=docs/dashboard.png pytest tests/e2e/test_dashboard.py -k picture_of_the` makes the picture again.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from penstock.kernel.ports import ClientFacts
from penstock.server import Server
from penstock.services.admin.models import StreamInfo
from penstock.services.admin.page import policy
from penstock.services.tables import ConfigurationTable
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import NEWEST
from tests.conformance.phrases import add, batch
from tests.services.admin.site import AdminSite
from tests.support.administration import ask, basic, write_users
from tests.support.background import BackgroundServer
from tests.support.browser import PATIENCE, Watch
from tests.support.process import READY, ServerProcess
from tests.support.raw import Stream
from tests.support.tls_front import TlsFront
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser

TABS = ("picture", "graphs", "sessions", "items", "adapters", "nodes", "log", "control", "configuration")
PHONE = 375
HOSTILE = "<img src=x onerror=alert(1)>\"'&{}"

# Milliseconds for which the page may do nothing else, on a machine that runs server, browser and tests at once.
LONGEST_PAUSE = 1_000
NOTE_PAUSES = """
window.pauses = [];
new PerformanceObserver((list) => window.pauses.push(...list.getEntries().map((entry) => entry.duration)))
    .observe({ type: "longtask" });
"""

DOCUMENT = Path(__file__).parents[2] / "docs" / "dashboard.md"
PICTURE = Path(__file__).parents[2] / "docs" / "dashboard.png"
PICTURE_SIZE = ViewportSize(width=1280, height=640)
PICTURE_LIMIT = 200_000  # bytes


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AdminSite]:
    marker = request.node.get_closest_marker("config")
    with AdminSite(tmp_path, marker.args[0] if marker else {}) as running:
        yield running


def log_in(page: Page, api_port: int, user: str = "root", tab: str = "picture", password: str | None = None) -> None:
    page.goto(f"http://127.0.0.1:{api_port}/dashboard/#{tab}")
    fill_in(page, user, f"{user}-secret" if password is None else password)


def fill_in(page: Page, user: str, password: str) -> None:
    page.locator("#user").fill(user)
    page.locator("#password").fill(password)
    page.locator("#password").press("Enter")


def wait_until_live(page: Page) -> None:
    expect(page.locator("body")).to_have_attribute("data-live", "true", timeout=PATIENCE)


def opened(watch: Watch, api_port: int, tab: str, user: str = "root") -> Page:
    log_in(watch.page, api_port, user, tab)
    wait_until_live(watch.page)
    return watch.page


def rows(page: Page, tab: str) -> Locator:
    return page.locator(f"#{tab} .grid-row:visible")


def search(page: Page, tab: str, text: str) -> None:
    page.locator(f"#{tab} input[type=search]").first.fill(text)
    # The rows follow with the next frame; until then there are too many of them for an expectation of one.
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def cell(row: Locator, field: str) -> Locator:
    return row.locator(f'[data-field="{field}"]')


def figure(page: Page, field: str) -> Locator:
    return page.locator(f'#picture .value[data-field="{field}"]')


def subscribed(site: AdminSite, user: str, item: str = "a") -> Stream:
    stream = site.exchange.stream(user=user)
    batch(site.exchange, stream.session, add(group=item))
    stream.read_until("CONF")
    return stream


def status_of(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        response.read()
        return response.status, {name.lower(): value for name, value in response.getheaders()}
    finally:
        connection.close()


def hostile_policy() -> str:
    return policy("evil'; script-src *", StreamInfo(address="", port=8080, tls_port=None))


# -- who gets in --------------------------------------------------------------------------------------------------


def test_without_administrators_there_is_no_dashboard(server: BackgroundServer) -> None:
    assert status_of(server.api_port, "/dashboard/")[0] == 404
    assert status_of(server.port, "/dashboard/")[0] == 404


def test_the_page_may_connect_to_this_server_only(site: AdminSite) -> None:
    status, headers = status_of(site.api_port, "/dashboard/")
    assert status == 200
    allowed = f"connect-src 'self' http://127.0.0.1:{site.port} ws://127.0.0.1:{site.port};"
    assert allowed in headers["content-security-policy"]
    assert "connect-src 'self';" in hostile_policy()
    assert status_of(site.api_port, "/dashboard")[1]["location"] == "dashboard/"
    assert status_of(site.api_port, "/assets/..%2findex.html")[0] == 404


def test_the_streaming_port_has_no_dashboard_unless_it_is_allowed(site: AdminSite) -> None:
    for path in ("/dashboard/", "/dashboard", "/dashboard/index.html"):
        assert status_of(site.port, path)[0] == 404


@pytest.mark.config({"admin.dashboard_at_stream": True})
def test_the_streaming_port_serves_the_dashboard_where_it_is_allowed(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.port, "sessions")
    assert page.url == f"http://127.0.0.1:{site.port}/dashboard/#sessions"
    with subscribed(site, "ann") as stream:
        act(page, "ann", "End session").get_by_role("button", name="End session").click()
        assert stream.read_until("END")[-1] == "END,32,The session was closed by an administrator"
    assert watch.complaints() == []


@pytest.mark.config({"admin.dashboard_at_stream": True})
def test_at_the_streaming_port_administration_is_for_the_dashboards_own_page(site: AdminSite) -> None:
    assert status_of(site.port, "/dashboard")[1]["location"] == "dashboard/"
    status, headers = status_of(site.port, "/dashboard/", {"Host": "evil'; script-src *"})
    assert status == 400 or "connect-src 'self';" in headers["content-security-policy"]
    login = {"Authorization": basic("root")}
    assert status_of(site.port, "/api/admin/me")[0] == 401
    assert status_of(site.port, "/api/admin/me", login)[0] == 200
    own = f"http://127.0.0.1:{site.port}"
    assert status_of(site.port, "/api/admin/me", {**login, "Origin": own})[0] == 200
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{site.port + 1}"):
        assert status_of(site.port, "/api/admin/me", {**login, "Origin": origin})[0] == 403
    # Nothing else of the API port has come along.
    for path in ("/metrics", "/api/2/things", "/api/administrators", "/dashboards"):
        assert status_of(site.port, path, login)[0] == 404


LISTENERS = """
[listeners.inside]
port = 0

[listeners.api-inside]
port = 0
serves = "api"
"""


@pytest.mark.parametrize("listener", ["inside", "api-inside"])
@pytest.mark.config({"cors.allow_origins": [], "stream.allow_websocket_origins": [], "admin.dashboard_at_stream": True})
def test_a_listener_with_a_name_serves_the_dashboard_and_its_page_is_known(
    request: pytest.FixtureRequest, tmp_path: Path, watch: Watch, listener: str
) -> None:
    (tmp_path / "penstock.toml").write_text(LISTENERS)
    settings = request.node.get_closest_marker("config").args[0]
    with AdminSite(tmp_path, settings, tmp_path / "penstock.toml") as site:
        page = opened(watch, site.port_of(listener), "picture")
        expect(figure(page, "CLIENTS.SESSIONS")).to_have_text("1")
        assert watch.complaints() == []


def test_a_wrong_login_is_told_and_another_attempt_works(site: AdminSite, watch: Watch) -> None:
    log_in(watch.page, site.api_port, password="wrong")
    expect(watch.page.locator("#login-problem")).to_contain_text("unknown user or wrong password")
    expect(watch.page.locator("#board")).to_be_hidden()
    expect(watch.page.locator("#password")).to_have_value("")
    fill_in(watch.page, "bob", "bob-secret")
    expect(watch.page.locator("#login-problem")).to_contain_text("bob has no role for administration")
    fill_in(watch.page, "root", "root-secret")
    wait_until_live(watch.page)
    expect(watch.page.locator("#who")).to_have_text("root (admin)")
    assert [each for each in watch.complaints() if "40" not in each] == []


def test_the_adapter_set_admits_administrators_and_viewers_only(site: AdminSite) -> None:
    def answer(user: str, password: str) -> str:
        with site.exchange.stream(adapter_set="DASHBOARD", user=user, password=password) as stream:
            return stream.head[0]

    assert answer("root", "root-secret").startswith("CONOK")
    assert answer("eve", "eve-secret").startswith("CONOK")
    assert answer("root", "wrong").startswith("CONERR,1,unknown user or wrong password")
    assert answer("bob", "bob-secret").startswith("CONERR,1,user bob has no role")
    with site.exchange.stream(adapter_set="DASHBOARD") as stream:
        assert stream.head[0].startswith("CONERR,1,")


@pytest.mark.config({"cors.allow_origins": [], "stream.allow_websocket_origins": []})
def test_the_dashboard_needs_no_origin_to_be_opened_to_strangers(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "picture")
    expect(figure(page, "CLIENTS.SESSIONS")).to_have_text("1")
    path = "/lightstreamer/create_session.txt?LS_protocol=TLCP-2.4.0"
    for origin in ("http://evil.example", f"http://evil.example:{site.api_port}", f"http://127.0.0.1:{site.port + 1}"):
        assert status_of(site.port, path, {"Origin": origin})[0] == 403
    assert watch.complaints() == []


def test_behind_a_proxy_that_ends_tls_the_dashboard_works_below_its_path(tmp_path: Path, browser: Browser) -> None:
    with TlsFront("/operations") as front:
        settings = {"admin.dashboard_at_stream": True, "admin.stream_address": front.url}
        with AdminSite(tmp_path, settings) as site, browser.new_context(ignore_https_errors=True) as context:
            front.behind = site.port
            watch = Watch(context)
            watch.page.goto(f"{front.url}/dashboard/#sessions")
            fill_in(watch.page, "root", "root-secret")
            wait_until_live(watch.page)
            expect(cell(rows(watch.page, "sessions"), "transport")).to_have_text(["websocket"], timeout=PATIENCE)
            assert watch.complaints() == []


def test_without_websockets_the_dashboard_streams_by_http(site: AdminSite, watch: Watch) -> None:
    # As a proxy does that knows no WebSockets.
    watch.page.route_web_socket(re.compile("."), lambda socket: socket.close())
    page = opened(watch, site.api_port, "sessions")
    with subscribed(site, "ann") as stream:
        expect(cell(rows(page, "sessions"), "transport")).to_have_text(["http-streaming"] * 2, timeout=PATIENCE)
        act(page, "ann", "End session").get_by_role("button", name="End session").click()
        assert stream.read_until("END")[-1] == "END,32,The session was closed by an administrator"
    assert watch.complaints() == []


# -- the tabs -----------------------------------------------------------------------------------------------------


def test_the_picture_shows_live_figures(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "picture")
    expect(figure(page, "CLIENTS.SESSIONS")).to_have_text("1")
    with subscribed(site, "ann"):
        expect(figure(page, "CLIENTS.SESSIONS")).to_have_text("2", timeout=PATIENCE)
    for part in ("feeds", "kernel", "doors", "journal", "pipeline"):
        expect(page.locator(f"[data-part={part}]")).to_be_visible()
    # The dashboard's own session is sent updates.
    expect(page.locator("[data-name=kernel-doors]")).to_have_attribute("data-moves", "true", timeout=PATIENCE)
    expect(page.locator("#server-name")).to_contain_text(" on ")
    assert watch.complaints() == []


def test_graphs_grow_and_tell_the_value_under_the_pointer(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "graphs")
    graph = page.locator("[data-graph=Sessions]")
    # Not by a function of the page: its policy forbids to evaluate text.
    expect(graph.locator("svg")).to_have_attribute("data-points", re.compile(r"[2-9]|\d\d+"), timeout=PATIENCE)
    assert (graph.locator(".curve").first.get_attribute("d") or "").startswith("M")
    expect(graph.locator(".at")).to_have_text("")
    graph.locator("svg").hover()
    expect(graph.locator(".at")).to_have_text(re.compile(r"at \d\d:\d\d:\d\d"))
    expect(cell(graph, "CLIENTS.SESSIONS")).to_have_text(re.compile(r"\d+"))
    page.mouse.move(0, 0)
    expect(graph.locator(".at")).to_have_text("")
    graph.locator("svg").focus()
    page.keyboard.press("ArrowLeft")
    expect(graph.locator(".at")).to_have_text(re.compile(r"at \d\d:\d\d:\d\d"))
    assert watch.complaints() == []


# Sessions whose clients have left are not to be waited for.
@pytest.mark.config({"session.session_recovery_millis": 200})
def test_sessions_are_searched_and_sorted(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions")
    with subscribed(site, "ann"), subscribed(site, "bert"), subscribed(site, "cleo"):
        expect(rows(page, "sessions")).to_have_count(4, timeout=PATIENCE)
        page.locator("#sessions .grid-head [data-field=user] button").click()
        expect(cell(rows(page, "sessions"), "user")).to_have_text(["ann", "bert", "cleo", "root"])
        page.locator("#sessions .grid-head [data-field=user] button").click()
        expect(cell(rows(page, "sessions"), "user")).to_have_text(["root", "cleo", "bert", "ann"])
        search(page, "sessions", "BERT")
        expect(cell(rows(page, "sessions"), "user")).to_have_text(["bert"])
        expect(page.locator("#sessions .count")).to_have_text("1 of 4")
        expect(cell(rows(page, "sessions"), "address")).to_have_text("127.0.0.1")
    search(page, "sessions", "")
    expect(rows(page, "sessions")).to_have_count(1, timeout=PATIENCE)
    assert watch.complaints() == []


def act(page: Page, user: str, action: str) -> Locator:
    """The question that is asked before something is done with the session of a user."""
    search(page, "sessions", user)
    expect(rows(page, "sessions")).to_have_count(1, timeout=PATIENCE)
    rows(page, "sessions").click()
    page.get_by_role("button", name=f"{action}…", exact=True).click()
    return page.get_by_role("dialog")


def test_an_administrator_ends_a_session_after_a_question(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions")
    with subscribed(site, "ann") as stream:
        act(page, "ann", "End session").get_by_role("button", name="Cancel").click()
        expect(rows(page, "sessions")).to_have_count(1)
        act(page, "ann", "End session").get_by_role("button", name="End session").click()
        assert stream.read_until("END")[-1] == "END,32,The session was closed by an administrator"
    expect(rows(page, "sessions")).to_have_count(0, timeout=PATIENCE)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert watch.complaints() == []


def test_an_administrator_sets_a_bandwidth(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions")
    with subscribed(site, "ann") as stream:
        question = act(page, "ann", "Set bandwidth")
        question.locator("input").fill("12.5")
        question.get_by_role("button", name="Set bandwidth").click()
        assert stream.read_until("CONS")[-1] == "CONS,12.5"
        expect(page.get_by_role("dialog")).to_have_count(0)
        rows(page, "sessions").click()
        expect(page.get_by_role("dialog").locator("[data-field=max_bandwidth]")).to_be_visible()
    assert watch.complaints() == []


def test_what_has_gone_wrong_with_an_action_is_told(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions")
    with subscribed(site, "ann") as stream:
        question = act(page, "ann", "End session")
        site.ask("DELETE", f"/sessions/{stream.session[:17]}")
        question.get_by_role("button", name="End session").click()
        expect(question.locator(".problem")).to_contain_text("no such session is open")


def test_an_administrator_blocks_and_unblocks_a_user(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions")
    with subscribed(site, "ann"):
        act(page, "ann", "Block user").get_by_role("button", name="Block user").click()
        expect(page.locator("#sessions .blocks")).to_contain_text("New sessions of user ann are blocked by root")
        with site.exchange.stream(user="ann") as refused:
            assert refused.head[0].startswith("CONERR,10,")
        page.locator("#sessions .blocks button").click()
        page.get_by_role("dialog").get_by_role("button", name="Unblock").click()
        expect(page.locator("#sessions .blocks")).to_be_hidden()
    with site.exchange.stream(user="ann") as stream:
        assert stream.head[0].startswith("CONOK")
    assert watch.complaints() == []


def test_a_viewer_looks_and_can_do_nothing(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions", user="eve")
    with subscribed(site, "ann"):
        search(page, "sessions", "ann")
        expect(rows(page, "sessions")).to_have_count(1, timeout=PATIENCE)
        rows(page, "sessions").click()
        expect(page.get_by_role("dialog").get_by_role("button")).to_have_text(["Close"])
    expect(page.locator("#who")).to_have_text("eve (viewer)")
    assert watch.complaints() == []


def test_items_are_searched(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "items")
    with subscribed(site, "ann", "needle"):
        search(page, "items", "needle")
        expect(rows(page, "items")).to_have_count(1, timeout=PATIENCE)
        expect(cell(rows(page, "items"), "data_adapter")).to_have_text("DEFAULT")
        site.update("needle", x="1")
        rows(page, "items").click()
        expect(page.get_by_role("dialog").locator("[data-field=mode]")).to_have_text("MERGE")
    assert watch.complaints() == []


def test_adapters_and_queries_of_the_pipeline_are_listed(tmp_path: Path, watch: Watch) -> None:
    directory = tmp_path / "data" / "pipeline"
    directory.mkdir(parents=True)
    query = {"name": "candles", "state": "failed", "updated": datetime.now(UTC).isoformat(), "reason": HOSTILE}
    (directory / "candles.json").write_text(json.dumps(query))
    with AdminSite(tmp_path) as site:
        page = opened(watch, site.api_port, "adapters")
        adapters = page.locator("[data-table=monitor_adapters]")
        adapters.locator("input").fill("DASHBOARD/MONITOR")
        expect(cell(adapters.locator(".grid-row:visible"), "state")).to_have_text("running", timeout=PATIENCE)
        queries = page.locator("[data-table=monitor_queries] .grid-row:visible")
        expect(cell(queries, "key")).to_have_text("candles", timeout=PATIENCE)
        expect(cell(queries, "state")).to_have_text("failed")
        expect(cell(queries, "error")).to_have_text(HOSTILE)
        assert watch.complaints() == []


@pytest.fixture
def administered(tmp_path: Path) -> Iterator[ServerProcess]:
    """A process with administrators."""
    users = tmp_path / "users"
    write_users(users)
    with ServerProcess(tmp_path, {"admin.users": str(users), "demo.pace": 5}) as process:
        yield process


def test_the_log_is_live_and_filtered_by_level_and_text(administered: ServerProcess, watch: Watch) -> None:
    page = opened(watch, administered.api_port, "log")
    # Connected, the page may not have subscribed yet, and lines of before are not shown.
    wait_until(lambda: "monitor_log_output" in str(ask(administered.api_port, "GET", "/items").body), "subscribed")
    status_of(administered.api_port, "/api/admin/me", {"Authorization": "Bearer wrong"})
    search(page, "log", "administration refused")
    expect(cell(rows(page, "log"), "LEVEL")).to_have_text(["WARNING"], timeout=PATIENCE)
    page.locator("#log select").select_option("ERROR")
    expect(rows(page, "log")).to_have_count(0)
    page.locator("#log select").select_option("WARNING")
    rows(page, "log").click()
    expect(page.get_by_role("dialog").locator('[data-field="MESSAGE"]')).to_contain_text("administration refused")
    assert watch.complaints() == []


def test_a_server_of_one_process_is_one_node(administered: ServerProcess, watch: Watch) -> None:
    page = opened(watch, administered.api_port, "nodes")
    expect(rows(page, "nodes")).to_have_count(1, timeout=PATIENCE)
    expect(cell(rows(page, "nodes"), "role")).to_have_text("single")
    expect(cell(rows(page, "nodes"), "state")).to_have_text("up")


def test_the_configuration_has_values_and_origins(administered: ServerProcess, watch: Watch) -> None:
    page = opened(watch, administered.api_port, "configuration")
    search(page, "configuration", "demo.pace")
    expect(cell(rows(page, "configuration"), "value")).to_have_text("5.0", timeout=PATIENCE)
    expect(cell(rows(page, "configuration"), "origin")).to_have_text("penstock.toml")
    search(page, "configuration", "session.default_keepalive")
    expect(cell(rows(page, "configuration"), "origin")).to_have_text("default")
    assert watch.complaints() == []


# -- whatever happens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_dashboard_comes_back_after_a_restart_of_the_server(
    administered: ServerProcess, watch: Watch, end: str
) -> None:
    page = opened(watch, administered.api_port, "sessions")
    expect(rows(page, "sessions")).to_have_count(1, timeout=PATIENCE)
    before = rows(page, "sessions").get_attribute("data-key")
    page.evaluate("window.loadedOnce = true")
    if end == "stop":
        administered.stop()
    else:
        administered.kill()
    expect(page.locator("body")).to_have_attribute("data-live", "false", timeout=PATIENCE)
    administered.start()
    wait_until_live(page)
    # The row of the session before is gone, that of the new one is there.
    expect(rows(page, "sessions")).to_have_count(1, timeout=PATIENCE)
    expect(rows(page, "sessions")).not_to_have_attribute("data-key", before or "", timeout=PATIENCE)
    # Actions work as well, although the server knows no token of before.
    act(page, "root", "Block user").get_by_role("button", name="Block user").click()
    expect(page.locator("#sessions .blocks")).to_contain_text("New sessions of user root are blocked by root")
    assert page.evaluate("window.loadedOnce"), "the page has been loaded again"
    assert [each for each in watch.complaints(server_was_away=True) if "401" not in each] == []


def test_hostile_names_are_text_and_nothing_else(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions")
    # A space would separate two items.
    item = HOSTILE.replace(" ", "/")
    with subscribed(site, HOSTILE, item):
        search(page, "sessions", "onerror")
        expect(cell(rows(page, "sessions"), "user")).to_have_text(HOSTILE, timeout=PATIENCE)
        act(page, "onerror", "Block user").get_by_role("button", name="Block user").click()
        expect(page.locator("#sessions .blocks")).to_contain_text(HOSTILE)
        page.locator("#tab-items").click()
        search(page, "items", "onerror")
        expect(cell(rows(page, "items"), "item")).to_have_text(item, timeout=PATIENCE)
    assert page.locator("img").count() == 0
    assert watch.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_every_tab_without_scrolling_sideways(site: AdminSite, browser: Browser, scheme: str) -> None:
    with browser.new_context(
        viewport={"width": PHONE, "height": 667},
        is_mobile=True,
        has_touch=True,
        color_scheme="dark" if scheme == "dark" else "light",
    ) as context:
        watch = Watch(context)
        page = watch.page
        page.goto(f"http://127.0.0.1:{site.api_port}/dashboard/")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
        fill_in(page, "root", "root-secret")
        wait_until_live(page)
        with subscribed(site, "w" * 200, "i" * 200):
            for tab in TABS:
                page.locator(f"#tab-{tab}").click()
                expect(page.locator(f"#{tab}")).to_be_visible()
                if tab in ("sessions", "items", "adapters", "nodes", "configuration"):
                    expect(rows(page, tab).first).to_be_visible(timeout=PATIENCE)
                assert page.evaluate("document.documentElement.scrollWidth") <= PHONE, tab
                assert page.evaluate("window.innerWidth") == PHONE, tab
        bright = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] > 128")
        assert bright == (scheme == "light")
        assert watch.complaints() == []


def crowd(server: Server, count: int) -> None:
    """Sessions without clients; on the server's thread."""
    codec, handler = TlcpCodec(NEWEST), server.sets.open_sets["TEST"].handler
    for number in range(count):
        session = server.kernel.open_session(codec, handler)
        session.user, session.adapter_set = f"user{number:05}", "TEST"
        session.client = ClientFacts(f"10.0.{number // 256}.1", False, {})


def test_ten_thousand_sessions_do_not_freeze_the_page(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "picture")
    site.call(crowd, site.server, 10_000)
    page.evaluate(NOTE_PAUSES)
    page.locator("#tab-sessions").click()
    expect(page.locator("#sessions .count")).to_have_attribute("data-rows", "10001", timeout=3 * PATIENCE)
    assert page.locator("#sessions .grid-row").count() < 100
    page.locator("#sessions .grid-head [data-field=user] button").click()
    expect(cell(rows(page, "sessions"), "user").first).to_have_text("root")
    page.locator("#sessions .grid").focus()
    page.keyboard.press("End")
    expect(page.locator("#sessions [aria-selected=true] [data-field=user]")).to_have_text("user09999")
    search(page, "sessions", "user0777")
    expect(rows(page, "sessions")).to_have_count(10, timeout=PATIENCE)
    pauses = page.evaluate("window.pauses.sort((one, other) => other - one).slice(0, 5)")
    assert max(pauses, default=0) < LONGEST_PAUSE, pauses
    assert watch.complaints() == []


def test_everything_can_be_reached_by_keyboard(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "picture")
    page.locator("#tab-picture").focus()
    for tab in (*TABS[1:], TABS[0]):
        page.keyboard.press("ArrowRight")
        expect(page.locator(f"#{tab}")).to_be_visible()
        expect(page.locator(f"#tab-{tab}")).to_be_focused()
    page.keyboard.press("End")
    # All of them first: "End" leads to the last row that has come.
    keys = str(sum(1 for _ in ConfigurationTable(site.config, {})()))
    expect(page.locator("#configuration .count")).to_have_attribute("data-rows", keys, timeout=PATIENCE)
    page.locator("#configuration .grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#configuration [aria-selected=true]")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("End")
    expect(page.locator("#configuration [aria-selected=true]")).to_have_attribute(
        "data-key", re.compile("^tlex"), timeout=PATIENCE
    )
    assert watch.complaints() == []


def test_logging_out_forgets_everything(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "picture")
    page.locator("#leave").click()
    expect(page.locator("#login")).to_be_visible()
    expect(page.locator("#user")).to_have_value("")
    assert watch.complaints() == []


def test_the_example_of_the_page_works_as_it_stands(tmp_path: Path, watch: Watch) -> None:
    blocks = dict(re.findall(r"^```([^\n]*)\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    (tmp_path / "penstock.toml").write_text(blocks["toml penstock.toml"])
    commands = blocks["sh"].replace("penstock serve", "exec penstock serve --port 0 --api-port 0")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with subprocess.Popen(
        ["sh", "-ec", commands], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = next(found for line in process.stdout if (found := READY.match(line)))
        try:
            log_in(watch.page, int(ready[4]), password="correct horse battery")
            wait_until_live(watch.page)
            expect(watch.page.locator("#who")).to_have_text("root (admin)")
        finally:
            process.terminate()
            process.communicate(timeout=20)


def test_the_picture_of_the_dashboard_can_be_made(
    administered: ServerProcess, browser: Browser, tmp_path: Path
) -> None:
    file = Path(os.environ.get("PENSTOCK_SCREENSHOT", tmp_path / "dashboard.png"))
    with browser.new_context(viewport=PICTURE_SIZE, color_scheme="light") as context:
        page = opened(Watch(context), administered.api_port, "picture")
        expect(figure(page, "CLIENTS.SESSIONS")).to_have_text("1")
        expect(page.locator("[data-name=kernel-journal]")).to_have_attribute("data-moves", "true", timeout=PATIENCE)
        page.screenshot(path=file)
    assert 10_000 < file.stat().st_size <= PICTURE_LIMIT


def test_the_picture_in_the_documentation_is_there_and_small() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert PICTURE.stat().st_size <= PICTURE_LIMIT
