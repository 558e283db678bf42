"""What operators see of push notifications: figures, statistics, the journal, lists, commands, health."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.journal.reader import JournalReader
from penstock.journal.selection import EventSelection
from penstock.push.ports import Handover, Verdict
from tests.services.push.stage import APPLICATION, PushServer
from tests.support.administration import ask, basic, write_users
from tests.support.background import BackgroundServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    users = tmp_path / "users"
    write_users(users)
    with PushServer(tmp_path, {"admin.users": str(users)}) as server:
        yield server


def fired(server: PushServer) -> tuple[str, str]:
    """A device and a subscription of it that has triggered; its notification has been sent."""
    with server.client() as client:
        device = client.register()
        subscription = client.activate(PN_trigger="Double.parseDouble($[1]) > 1")
        server.update("item1", x="2")
        server.provider.wait(1)
        server.wait(lambda: server.engine.sent == 1)
    return device, subscription


def command(server: PushServer, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        app,
        ["push", "--api", f"http://127.0.0.1:{server.api_port}", "--user", "root", *arguments],
        env={"PENSTOCK_ADMIN_PASSWORD": "root-secret"},
    )
    return done.exit_code, done.output


def test_devices_and_subscriptions_are_listed_without_tokens(server: PushServer) -> None:
    device, subscription = fired(server)
    devices = ask(server.api_port, "GET", "/push/devices").body
    (row,) = devices["devices"]
    assert devices["total"] == 1
    assert (row["device"], row["application"], row["status"], row["subscriptions"], row["waiting"]) == (
        device,
        APPLICATION,
        "ACTIVE",
        1,
        0,
    )
    found = ask(server.api_port, "GET", f"/push/subscriptions?device={device}").body
    assert found["subscriptions"][0] | {"status_ms": 0} == {
        "subscription": subscription,
        "device": device,
        "status": "TRIGGERED",
        "status_ms": 0,
        "adapter_set": "TEST",
        "data_adapter": "HAND",
        "group": "item1",
        "schema": "x y",
        "mode": "MERGE",
        "format": '{"aps":{"alert":"$[1] and $[2]"}}',
        "trigger": "Double.parseDouble($[1]) > 1",
        "buffer_size": 1,
        "max_per_second": None,
    }
    assert "123456" not in json.dumps([devices, found])
    assert ask(server.api_port, "GET", "/push/devices?status=SUSPENDED").body["total"] == 0


def test_commands_print_tables_and_send_tests(server: PushServer) -> None:
    device, subscription = fired(server)
    code, output = command(server, "devices")
    assert code == 0
    assert f"{device}  Apple     {APPLICATION}  ACTIVE" in output
    code, output = command(server, "subscriptions")
    assert (code, f"{subscription}  {device}  TRIGGERED" in output) == (0, True)
    code, output = command(server, "send-test", device)
    assert (code, output) == (0, f"penstock: device {device}: accepted\n")
    assert server.provider.wait(2)[1].payload == '{"aps":{"alert":"A test from Penstock"}}'
    server.provider.answer = lambda notification: Handover(Verdict.GONE, "Unregistered")
    code, output = command(server, "send-test", device, "--payload", '{"aps":{}}')
    assert (code, "not accepted: gone: Unregistered" in output) == (1, True)
    assert "there is no such device" in command(server, "send-test", "nobody")[1]


def test_applications_are_listed_with_public_keys_and_why_they_are_held_back(server: PushServer) -> None:
    expected = {"platform": "Apple", "application": APPLICATION, "held_back": None, "public_key": None}
    assert ask(server.api_port, "GET", "/push/applications").body == [expected]
    server.provider.answer = lambda notification: Handover(Verdict.CREDENTIALS, "ExpiredProviderToken")
    server.provider.public_key = "BCVx"
    with server.client() as client:
        client.register()
        client.activate()
        server.update("item1", x="2")
        server.wait(lambda: bool(server.engine.memory.sender.held))
    assert ask(server.api_port, "GET", "/push/applications").body == [
        expected | {"held_back": "ExpiredProviderToken", "public_key": "BCVx"}
    ]


def test_viewers_may_look_and_not_send(server: PushServer) -> None:
    device, _ = fired(server)
    assert ask(server.api_port, "GET", "/push/devices", authorization=basic("eve")).status == 200
    assert ask(server.api_port, "POST", f"/push/devices/{device}/test", authorization=basic("eve")).status == 403


def test_a_server_without_push_notifications_says_so(tmp_path: Path) -> None:
    users = tmp_path / "users"
    write_users(users)
    with BackgroundServer({"admin.users": str(users)}) as server:
        answer = ask(server.api_port, "GET", "/push/devices")
        assert (answer.status, answer.error) == (409, "push notifications are disabled (push.enabled)")


def test_figures_and_statistics_count_devices_and_notifications(server: PushServer) -> None:
    fired(server)
    server.call(server.server.sampler.sample)
    latest = server.call(lambda: server.server.sampler.latest)
    assert latest.push_notifications_devices == latest.push_notifications_max_devices == 1
    assert latest.push_notifications_total_sent == 1
    assert latest.push_notifications_total_bytes == len('{"aps":{"alert":"2 and "}}')
    families = {family.name: family for family in server.call(lambda: list(server.server.push.figures()))}
    assert families["penstock_push_subscriptions"].samples[0][0] == 1
    assert families["penstock_push_flows"].samples[0][0] == 0


def test_what_was_sent_is_journaled_without_token_and_text(server: PushServer, tmp_path: Path) -> None:
    device, subscription = fired(server)
    server.provider.answer = lambda notification: Handover(Verdict.REFUSED, "BadTopic")
    with server.client() as client:
        client.register()
        client.activate()
        server.update("item1", x="3")
        server.wait(lambda: server.engine.lost == 1)
    server.stop()
    batches = JournalReader(tmp_path / "data" / "journal").read(selection=EventSelection(entities=("push",)))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["kind"], row["path"]) for row in rows] == [("sent", device), ("lost", device)]
    sent, lost = (json.loads(row["value"]) for row in rows)
    assert (sent["subscription"], sent["application"]) == (subscription, APPLICATION)
    assert (lost["loss"], lost["reason"]) == ("refused", "BadTopic")
    assert "123456" not in str(rows)


def test_credentials_that_are_not_accepted_are_a_degradation_until_they_are_mended(server: PushServer) -> None:
    server.provider.answer = lambda notification: Handover(Verdict.CREDENTIALS, "ExpiredProviderToken")
    with server.client() as client:
        client.register()
        client.activate(PN_trigger="Double.parseDouble($[1]) > 1")
        server.update("item1", x="2")
        server.wait(lambda: server.server.push.degradations() == [f"push application {APPLICATION}"])
        server.provider.answer = lambda notification: Handover(Verdict.ACCEPTED)
        server.call(lambda: server.engine.mended(server.engine.flights.providers))
        first, second = server.provider.wait(2)
        assert first.id == second.id
        server.wait(lambda: server.server.push.degradations() == [])
