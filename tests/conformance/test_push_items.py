"""The internal data adapter of push notifications: every field of every item, and who may see them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.conformance.phrases import row
from tests.services.push.stage import PushClient, PushServer

FORMAT = '{"aps":{"alert":"$[1]"}}'
TRIGGER = "Double.parseDouble($[1]) > 500.0"


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushServer]:
    with PushServer(tmp_path_factory.mktemp("push")) as server:
        yield server


@pytest.fixture
def client(pushing: PushServer) -> Iterator[PushClient]:
    with pushing.client() as client:
        client.register()
        yield client
        client.ask("deactivate", PN_deviceId=client.device)


def value(client: PushClient, item: str, field: str) -> str:
    assert client.subscribe(item, field).startswith("REQOK")
    return client.told("U")[2]


def is_now(millis: str) -> bool:
    return abs(int(millis) - time.time() * 1000) < 60_000


@pytest.mark.conformance("mpn.items.DEV.status")
def test_a_device_is_active_or_suspended(client: PushClient) -> None:
    assert value(client, f"DEV-{client.device}", "status") == "ACTIVE"


@pytest.mark.conformance("mpn.items.DEV.status_timestamp")
def test_a_device_says_when_its_status_changed(client: PushClient) -> None:
    assert is_now(value(client, f"DEV-{client.device}", "status_timestamp"))


@pytest.mark.parametrize(
    ("place", "expected"), [row("mpn.items.SUBS.key", 0, "SUB-"), row("mpn.items.SUBS.command", 1, "ADD")]
)
def test_the_list_of_a_device_has_keys_and_commands(client: PushClient, place: int, expected: str) -> None:
    subscription = client.activate()
    assert client.subscribe(f"SUBS-{client.device}", "key command", "COMMAND").startswith("REQOK")
    told = client.told("U")[2].split("|")
    assert told[place] == (f"SUB-{subscription}" if expected == "SUB-" else expected)
    client.done("deactivate", "MPNDEL", PN_deviceId=client.device)
    assert client.told("U")[2] == "|DELETE"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        row("mpn.items.SUB.status", "status", "ACTIVE"),
        row("mpn.items.SUB.notification_format", "notification_format", FORMAT),
        row("mpn.items.SUB.trigger", "trigger", TRIGGER),
        row("mpn.items.SUB.group", "group", "item1"),
        row("mpn.items.SUB.schema", "schema", "x y"),
        row("mpn.items.SUB.adapter", "adapter", "HAND"),
        row("mpn.items.SUB.mode", "mode", "MERGE"),
        row("mpn.items.SUB.buffer_size", "buffer_size", "5"),
        row("mpn.items.SUB.max_frequency", "max_frequency", "0.5"),
    ],
)
def test_a_subscription_has_this_field(client: PushClient, field: str, expected: str) -> None:
    subscription = client.activate(
        PN_notificationFormat='{"aps":{"alert":"${x}"}}',
        PN_trigger="Double.parseDouble(${x}) > 500.0",
        LS_requested_buffer_size="5",
        LS_requested_max_frequency="0.5",
    )
    assert value(client, f"SUB-{subscription}", field) == expected


@pytest.mark.conformance("mpn.items.SUB.status_timestamp")
def test_a_subscription_says_when_its_status_changed(client: PushClient) -> None:
    assert is_now(value(client, f"SUB-{client.activate()}", "status_timestamp"))


@pytest.mark.conformance("mpn.items.SUB.status.TRIGGERED")
def test_a_subscription_that_triggers_says_so(pushing: PushServer, client: PushClient) -> None:
    subscription = client.activate(PN_trigger=TRIGGER)
    assert value(client, f"SUB-{subscription}", "status") == "ACTIVE"
    pushing.update("item1", x="501")
    assert client.told("U")[2] == "TRIGGERED"


@pytest.mark.conformance("mpn.items.access")
def test_items_are_for_sessions_that_have_registered_the_device(pushing: PushServer, client: PushClient) -> None:
    subscription = client.activate()
    with pushing.client() as other:
        for item in (f"DEV-{client.device}", f"SUB-{subscription}"):
            assert other.subscribe(item, "status").split(",")[2] == "21"
        assert other.subscribe(f"SUBS-{client.device}", "key command", "COMMAND").split(",")[2] == "21"
