"""From a client's request to the provider, through a whole server: devices, subscriptions, triggers, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.push.ports import Handover, Verdict
from tests.services.push.stage import APPLICATION, PushServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with PushServer(tmp_path) as server:
        yield server


def test_each_update_is_pushed_without_a_session(server: PushServer) -> None:
    with server.client() as client:
        client.register()
        subscription = client.activate()
    server.update("item1", x="1", y="2")
    server.update("item1", y='"3"')
    first, second = server.provider.wait(2)
    assert first.subscription == second.subscription == subscription
    assert first.payload == '{"aps":{"alert":"1 and 2"}}'
    assert second.payload == '{"aps":{"alert":"1 and \\"3\\""}}'
    assert [token for token, _ in server.provider.sent] == ["123456", "123456"]


def test_a_trigger_fires_once_and_its_subscription_is_triggered_from_then_on(server: PushServer) -> None:
    with server.client() as client:
        client.register()
        subscription = client.activate(PN_trigger="Double.parseDouble(${x}) > 500.0")
        assert client.subscribe(f"SUB-{subscription}", "status trigger").startswith("REQOK")
        assert client.told("U")[2] == "ACTIVE|Double.parseDouble($[1]) > 500.0"
        for value in ("499", "501", "502"):
            server.update("item1", x=value)
        assert client.told("U")[2] == "TRIGGERED|"
        (only,) = server.provider.wait(1)
        assert only.payload == '{"aps":{"alert":"501 and "}}'
        assert only.lasting
        client.done(
            "pn_reconf",
            "MPNCONF",
            **{
                name: value
                for name, value in client.parameters(PN_subscriptionId=subscription).items()
                if name not in ("LS_subId", "PN_notificationFormat")
            },
        )
        assert client.told("U")[2] == "ACTIVE|"
        server.update("item1", x="503")
        assert server.provider.wait(2)[1].payload == '{"aps":{"alert":"503 and "}}'


def test_devices_and_subscriptions_survive_a_restart(tmp_path: Path) -> None:
    with PushServer(tmp_path) as server, server.client() as client:
        device = client.register()
        subscription = client.activate()
        triggered = client.activate(PN_trigger="Double.parseDouble($[2]) > 1")
        server.update("item1", y="2")
        server.provider.wait(2)
    with PushServer(tmp_path) as server:
        server.update("item1", x="1", y="3")
        (again,) = server.provider.wait(1)
        assert again.subscription == subscription
        with server.client() as client:
            assert client.register() == device
            assert client.subscribe(f"SUBS-{device}", "key command", "COMMAND").startswith("REQOK")
            rows = {client.told("U")[2].split("|")[0] for _ in range(2)}
            assert rows == {f"SUB-{subscription}", f"SUB-{triggered}"}
            assert client.done("deactivate", "MPNDEL", PN_deviceId=device, PN_subscriptionStatus="TRIGGERED") == [
                triggered
            ]


def test_a_client_is_told_the_id_of_a_subscription_before_any_item_is_about_it(server: PushServer) -> None:
    with server.client() as client:
        device = client.register()
        assert client.subscribe(f"SUBS-{device}", "key command", "COMMAND").startswith("REQOK")
        client.told("EOS")
        for _ in range(10):
            assert client.ask("activate", **client.parameters(PN_coalescing="false")).startswith("REQOK")
            told = client.stream.read_until("U")
            assert [line.split(",")[0] for line in told if not line.startswith("PROBE")] == ["MPNOK", "U"]
            assert told[-1].split(",")[3].split("|")[0] == f"SUB-{told[-2].split(',')[2]}"


def test_a_provider_that_is_away_gets_it_later_and_one_that_knows_no_such_device_suspends_it(
    server: PushServer,
) -> None:
    answers = [Handover(Verdict.RETRY, "away"), Handover(Verdict.ACCEPTED), Handover(Verdict.GONE, "unregistered")]
    server.provider.answer = lambda notification: answers.pop(0)
    with server.client() as client:
        device = client.register()
        assert client.subscribe(f"DEV-{device}", "status").startswith("REQOK")
        assert client.told("U")[2] == "ACTIVE"
        client.activate(PN_trigger="Double.parseDouble($[1]) > 1")
        server.update("item1", x="2")
        first, second = server.provider.wait(2)
        assert first.id == second.id
        client.activate()
        server.update("item1", x="3")
        server.provider.wait(3)
        assert client.told("U")[2] == "SUSPENDED"
        assert client.ask("activate", **client.parameters()).split(",")[2] == "48"
        server.provider.answer = lambda notification: Handover(Verdict.ACCEPTED)
        client.register()
        assert client.told("U")[2] == "ACTIVE"


def test_a_device_is_known_by_a_new_token_with_all_it_has(server: PushServer) -> None:
    with server.client() as client:
        device = client.register("old")
        client.activate()
        assert client.register("old", PN_newDeviceToken="new") == device
        server.update("item1", x="1")
        server.provider.wait(1)
        assert server.provider.sent[0][0] == "new"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"PN_deviceId": "nobody"}, "45"),
        ({"LS_mode": "COMMAND"}, "24"),
        ({"LS_mode": "RAW"}, "24"),
        ({"LS_data_adapter": "NONE"}, "17"),
        ({"LS_data_adapter": "MPN_INTERNAL_DATA_ADAPTER"}, "17"),
        ({"PN_subscriptionId": "nothing"}, "46"),
        ({"PN_subscriptionId": "nothing", "PN_coalescing": "true"}, "65"),
        ({"PN_notificationFormat": '{"a":"${z}"}'}, "47"),
        ({"PN_notificationFormat": '{"a":"$[3]"}'}, "47"),
        ({"PN_notificationFormat": "{"}, "52"),
        ({"PN_notificationFormat": ""}, "53"),
        ({"PN_notificationFormat": '{"a":"' + "b" * 5_000 + '"}'}, "51"),
        ({"PN_notificationFormat": '{"a":"' + "b" * 9_000 + '"}'}, "49"),
        ({"PN_trigger": "System.exit(0)"}, "44"),
        ({"LS_group": "empty"}, "50"),
    ],
)
def test_what_cannot_be_activated_is_refused_with_its_code(
    server: PushServer, changed: dict[str, str], code: str
) -> None:
    with server.client() as client:
        client.register()
        answer = client.ask("activate", **client.parameters(**changed))
        assert answer.split(",")[:3] == ["REQERR", "2", code], answer
    assert server.call(lambda: server.engine.memory.registry.subscription_count) == 0


def test_a_device_of_another_session_cannot_be_used(server: PushServer) -> None:
    with server.client() as owner, server.client() as other:
        other.device = owner.register()
        subscription = owner.activate()
        assert other.ask("activate", **other.parameters()).split(",")[2] == "45"
        assert other.subscribe(f"SUB-{subscription}", "status").split(",")[2] == "21"
        assert other.subscribe(f"DEV-{other.device}", "status").split(",")[2] == "21"


def test_an_application_that_is_not_configured_is_refused(server: PushServer) -> None:
    with server.client() as client:
        answer = client.ask("register", PN_type="Apple", PN_appId="other", PN_deviceToken="1")
        assert answer.split(",")[2] == "43"
        answer = client.ask("register", PN_type="Google", PN_appId=APPLICATION, PN_deviceToken="1")
        assert answer.split(",")[2] == "43"


def test_equal_base_parameters_are_one_subscription_if_the_client_asks_for_that(server: PushServer) -> None:
    with server.client() as client:
        client.register()
        first = client.activate(PN_coalescing="true")
        assert client.activate(PN_coalescing="true", PN_notificationFormat='{"a":1}') == first
        assert client.activate() != first


def test_items_that_nobody_has_to_follow_are_released(server: PushServer) -> None:
    with server.client() as client:
        client.register()
        client.activate()
        assert server.call(lambda: set(server.adapter.subscribed)) == {"item1"}
        client.done("deactivate", "MPNDEL", PN_deviceId=client.device)
        assert server.call(lambda: set(server.adapter.subscribed)) == set()
