"""What an administrator does from the dashboard: subscriptions, blocks, drain, reload, levels of the log, adapters that
have failed, and the TLEX hub. Each is asked about first, and a viewer is offered none.

Not here: who gets in, and what the tabs show (test_dashboard.py); the rules of each action (tests/services/admin).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.wire.tlex.datagrams import Bye, Reconnect
from tests.doors.tlex.site import Site
from tests.e2e.test_dashboard import HOSTILE, act, cell, opened, rows, search, subscribed
from tests.services.admin.site import AdminSite
from tests.services.admin.test_routes import actions
from tests.support.administration import ask, write_users
from tests.support.browser import PATIENCE, Watch
from tests.support.process import ServerProcess
from tests.support.worker_processes import WorkersProcess

pytestmark = pytest.mark.browser


@pytest.fixture
def site(tmp_path: Path) -> Iterator[AdminSite]:
    with AdminSite(tmp_path) as running:
        yield running


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Site]:
    write_users(tmp_path / "users")
    with Site(tmp_path, {"admin.users": str(tmp_path / "users")}) as running:
        yield running


def asked(page: Page, action: str) -> Locator:
    """The question that a button of the tab of control leads to."""
    page.locator("#control").get_by_role("button", name=f"{action}…", exact=True).click()
    return page.get_by_role("dialog")


def confirm(question: Locator, verb: str) -> None:
    question.get_by_role("button", name=verb, exact=True).click()
    expect(question).to_have_count(0)


def details_of(page: Page, user: str) -> Locator:
    search(page, "sessions", user)
    expect(rows(page, "sessions")).to_have_count(1, timeout=PATIENCE)
    rows(page, "sessions").click()
    return page.get_by_role("dialog")


def test_a_subscriptions_frequency_is_set_and_reset_and_it_is_ended(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions")
    with subscribed(site, "ann", "needle") as stream:
        subscription = details_of(page, "ann").locator("[data-subscription='1']")
        expect(subscription).to_contain_text("1: needle of DEFAULT")
        expect(subscription.get_by_role("button")).to_have_text(["Set frequency…", "Unsubscribe…"])
        subscription.get_by_role("button", name="Set frequency…").click()
        page.get_by_role("dialog").locator("input").fill("2.5")
        confirm(page.get_by_role("dialog"), "Set frequency")
        assert stream.read_until("CONF")[-1] == "CONF,1,2.5,filtered"
        subscription = details_of(page, "ann").locator("[data-subscription='1']")
        expect(cell(subscription, "frequency")).to_have_text(
            "MERGE, at most 2.5 updates a second, set by an administrator"
        )
        subscription.get_by_role("button", name="Reset frequency…").click()
        confirm(page.get_by_role("dialog"), "Reset frequency")
        assert stream.read_until("CONF")[-1] == "CONF,1,unlimited,filtered"
        details_of(page, "ann").locator("[data-subscription='1']").get_by_role("button", name="Unsubscribe…").click()
        confirm(page.get_by_role("dialog"), "Unsubscribe")
        assert stream.read_until("UNSUB")[-1] == "UNSUB,1"
        expect(details_of(page, "ann").locator(".subscriptions")).to_contain_text("None.")
    assert watch.complaints() == []


def test_a_bandwidth_that_was_set_is_reset(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "sessions")
    with subscribed(site, "ann") as stream:
        site.ask("PUT", f"/sessions/{stream.session[:17]}/bandwidth", {"max_kbps": 7})
        assert stream.read_until("CONS")[-1] == "CONS,7"
        confirm(act(page, "ann", "Reset bandwidth"), "Reset bandwidth")
        assert stream.read_until("CONS")[-1] == "CONS,unlimited"
    assert watch.complaints() == []


def test_all_sets_and_users_are_blocked_and_unblocked(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "control")
    for scope, name, words in (
        ("all", "", "All new sessions are blocked by root"),
        ("adapter_set", "TEST", "New sessions of adapter set TEST are blocked by root"),
        ("user", "ann", "New sessions of user ann are blocked by root"),
    ):
        question = asked(page, "Block")
        question.locator("select").select_option(scope)
        question.locator("input").fill(name)
        confirm(question, "Block")
        expect(page.locator("#control .blocks")).to_contain_text(words)
        with site.exchange.stream(user="ann") as refused:
            assert refused.head[0].startswith("CONERR,10,")
        page.locator("#control .blocks button").click()
        confirm(page.get_by_role("dialog"), "Unblock")
        expect(page.locator("#control .blocks")).to_be_hidden()
    with site.exchange.stream(user="ann") as stream:
        assert stream.head[0].startswith("CONOK")
    # What somebody else does is seen as well, and names are text.
    site.ask("PUT", "/blocks", {"scope": "user", "name": HOSTILE})
    expect(page.locator("#control .blocks")).to_contain_text(HOSTILE, timeout=PATIENCE)
    assert page.locator("img").count() == 0
    assert watch.complaints() == []


def test_a_block_without_a_name_is_refused_and_told(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "control")
    question = asked(page, "Block")
    question.locator("select").select_option("user")
    question.get_by_role("button", name="Block", exact=True).click()
    expect(question.locator(".problem")).to_be_visible()
    assert not site.server.gate.blocks


def test_a_server_is_drained_and_the_drain_is_cancelled(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "control")
    state = page.locator("[data-control=drain]")
    expect(state).to_have_text("Not draining: 1 session is open.", timeout=PATIENCE)
    expect(page.get_by_role("button", name="Cancel drain…")).to_be_hidden()
    confirm(asked(page, "Drain"), "Drain")
    expect(state).to_have_text("Draining: 1 session is open, they end when their clients leave.")
    assert site.server.readiness() == (503, {"status": "draining"})
    confirm(asked(page, "Cancel drain"), "Cancel drain")
    expect(state).to_have_text("Not draining: 1 session is open.")
    assert site.server.readiness()[0] == 200
    assert watch.complaints() == []


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    users = tmp_path / "users"
    write_users(users)
    with ServerProcess(tmp_path, {"admin.users": str(users)}) as running:
        yield running


def test_a_configuration_is_reloaded_and_what_is_wrong_with_it_is_told(process: ServerProcess, watch: Watch) -> None:
    page = opened(watch, process.api_port, "control")
    configuration = process.directory / "penstock.toml"
    confirm(asked(page, "Reload"), "Reload")
    expect(page.locator("[data-control=reload]")).to_have_text("Reloaded. Adapter sets are the same as before.")
    before = configuration.read_text()
    configuration.write_text("api.metrics = false\n" + before)
    confirm(asked(page, "Reload"), "Reload")
    expect(page.locator("[data-control=reload]")).to_have_text("Reloaded. Needs a restart: api.metrics.")
    configuration.write_text(before + "\nnonsense = 1\n")
    question = asked(page, "Reload")
    question.get_by_role("button", name="Reload", exact=True).click()
    expect(question.locator(".problem")).to_contain_text("configuration refused, everything stays as it is")


def test_a_drain_may_end_with_a_stop(process: ServerProcess, watch: Watch) -> None:
    page = opened(watch, process.api_port, "control")
    question = asked(page, "Drain")
    question.locator("input[type=number]").fill("0")
    question.get_by_label("Stop the server when no session is left").check()
    question.get_by_role("button", name="Drain", exact=True).click()
    assert process.wait() == 0


def test_one_of_several_nodes_is_drained_and_that_is_cancelled(tmp_path: Path, watch: Watch) -> None:
    write_users(tmp_path / "users")
    with WorkersProcess(tmp_path, {"admin.users": str(tmp_path / "users")}) as server:
        page = opened(watch, server.api_port, "nodes")
        worker = page.locator("#nodes .grid-row[data-key='w1']:visible")
        for action, state in (("Drain", "draining"), ("Cancel drain", "up")):
            expect(worker).to_be_visible(timeout=PATIENCE)
            worker.click()
            page.get_by_role("dialog").get_by_role("button", name=f"{action}…", exact=True).click(timeout=PATIENCE)
            confirm(page.get_by_role("dialog"), action)
            assert ask(server.api_port, "GET", "/drain").body["nodes"] == (["w1"] if state == "draining" else [])
            expect(cell(worker, "state")).to_have_text(state, timeout=PATIENCE)
        # A hub without clients cannot be drained.
        page.locator("#nodes .grid-row[data-key='hub']:visible").click()
        expect(page.get_by_role("dialog").get_by_role("button")).to_have_text(["Close"])
        assert watch.complaints() == []


def test_the_level_of_a_category_is_set_and_reset(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "control")
    levels = page.locator("[data-table=levels]")
    category = "penstock.doors.ditto"
    before = logging.getLogger(category).level
    levels.locator("input").fill(category)
    row = levels.locator(f".grid-row[data-key='{category}']:visible")
    try:
        for level, kept in (("error", logging.ERROR), ("", before)):
            row.click(timeout=PATIENCE)
            page.get_by_role("dialog").locator("select").select_option(level)
            confirm(page.get_by_role("dialog"), "Set level")
            assert logging.getLogger(category).level == kept
            if level:
                expect(cell(row, "level")).to_have_text(level)
    finally:
        logging.getLogger(category).setLevel(before)
    expect(cell(row, "level")).not_to_have_text("error")
    assert watch.complaints() == []


def test_the_failure_of_an_adapter_is_cleared(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "adapters")
    site.call(site.plain.fail, HOSTILE)
    adapters = page.locator("[data-table=monitor_adapters]")
    adapters.locator("input").fill("TEST/PLAIN")
    row = adapters.locator(".grid-row:visible")
    expect(cell(row, "state")).to_have_text("failed", timeout=PATIENCE)
    expect(cell(row, "trouble")).to_have_text(HOSTILE)
    row.click()
    page.get_by_role("button", name="Clear failure…").click()
    confirm(page.get_by_role("dialog"), "Clear failure")
    expect(cell(row, "state")).to_have_text("running", timeout=PATIENCE)
    assert site.server.readiness()[0] == 200
    row.click()
    expect(page.get_by_role("dialog").get_by_role("button")).to_have_text(["Close"])
    assert watch.complaints() == []


def test_tlex_sessions_are_ended_and_asked_to_reconnect(hub: Site, watch: Watch) -> None:
    page = opened(watch, hub.background.api_port, "control")
    sessions = page.locator("[data-table=tlex]")
    expect(sessions).to_be_hidden()
    (identifier,) = hub.tlcs(1)
    peer = hub.controller(identifier)
    row = sessions.locator(".grid-row:visible")
    expect(cell(row, "state")).to_have_text("live", timeout=PATIENCE)
    row.click()
    expect(cell(page.get_by_role("dialog"), "names")).to_have_text(identifier)
    page.get_by_role("button", name="Ask to reconnect…").click()
    confirm(page.get_by_role("dialog"), "Ask to reconnect")
    peer.expect(Reconnect)
    expect(cell(row, "state")).to_have_text("leaving", timeout=PATIENCE)
    peer.close()
    other = hub.controller(identifier)
    expect(cell(row, "state")).to_have_text("live", timeout=PATIENCE)
    row.click()
    page.get_by_role("button", name="End session…").click()
    confirm(page.get_by_role("dialog"), "End session")
    other.expect(Bye)
    expect(sessions).to_be_hidden(timeout=PATIENCE)
    assert ask(hub.background.api_port, "GET", "/tlex/sessions").body["total"] == 0
    assert watch.complaints() == []


def test_a_viewer_sees_how_things_stand_and_is_offered_no_action(site: AdminSite, watch: Watch) -> None:
    site.ask("PUT", "/blocks", {"scope": "all"})
    page = opened(watch, site.api_port, "control", user="eve")
    expect(page.locator("#control .blocks")).to_contain_text("All new sessions are blocked by root", timeout=PATIENCE)
    expect(page.locator("[data-control=drain]")).to_contain_text("Not draining", timeout=PATIENCE)
    expect(page.locator("#control .cards button")).to_have_count(0)
    levels = page.locator("[data-table=levels]")
    levels.locator("input").fill("penstock.doors.ditto")
    levels.locator(".grid-row:visible").first.click(timeout=PATIENCE)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert watch.complaints() == []


def test_each_action_is_in_the_journal_with_who_did_it(site: AdminSite, watch: Watch) -> None:
    page = opened(watch, site.api_port, "control")
    confirm(asked(page, "Drain"), "Drain")
    confirm(asked(page, "Cancel drain"), "Cancel drain")
    assert [(each["action"], each["by"]) for each in actions(site)] == [("drain", "root"), ("cancel drain", "root")]
