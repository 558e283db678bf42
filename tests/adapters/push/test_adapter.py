"""The items about devices and subscriptions: their fields, who may see them, and what is told of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from penstock.adapters import AdapterSet, MetadataAdapter
from penstock.adapters.authority import SetAuthority
from penstock.adapters.push import PushAdapter
from penstock.adapters.push.adapter import subscription_fields
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import ClientFacts, Grant, SessionFacts
from penstock.push.records import (
    Device,
    DeviceKey,
    DeviceStatus,
    DropDevice,
    DropSubscription,
    Flow,
    Platform,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveSubscription,
    SubscriptionStatus,
)
from tests.adapters.stage import Stage

FLOW = Flow("SET", "STOCKS", "item1", "stock_name last_price", "MERGE", ("item1",), ("stock_name", "last_price"))
DEVICE = Device("d1", DeviceKey(Platform.APPLE, "app", "123456"), DeviceStatus.ACTIVE, 1_700_000_000_000, 0)
FIRST = PushSubscription("s1", "d1", FLOW, "{}", None, 1, None, SubscriptionStatus.ACTIVE, 1_700_000_000_001)
SECOND = replace(FIRST, id="s2", trigger='$[1].equals("x")', buffer_size=None, max_frequency=0.5)

DETAILS = "status status_timestamp notification_format trigger group schema adapter mode buffer_size max_frequency"


class Book:
    """Devices and subscriptions by hand; session `S1` has registered device `d1`."""

    def __init__(self) -> None:
        self.devices = {"d1": DEVICE}
        self.known: dict[str, PushSubscription] = {"s1": FIRST}
        self.tells: list[Callable[[Sequence[PushChange]], None]] = []
        self.registered = {("S1", "d1")}
        self.keys = {"shop": "first key"}

    def device(self, id: str) -> Device | None:
        return self.devices.get(id)

    def subscription(self, id: str) -> PushSubscription | None:
        return self.known.get(id)

    def subscriptions(self, device: str) -> list[PushSubscription]:
        return [each for each in self.known.values() if each.device == device]

    def listen(self, tell: Callable[[Sequence[PushChange]], None], read_keys: Callable[[], None]) -> Callable[[], None]:
        self.tells = [tell]
        self.read_keys = read_keys
        return self.tells.clear

    def public_key(self, site: str) -> str | None:
        return self.keys.get(site)

    def has_registered(self, session: str, device: str) -> bool:
        return (session, device) in self.registered


@dataclass
class Asked:
    group: str
    schema: str = "status"
    mode: str = "MERGE"
    selector: str | None = None
    data_adapter: str = "PUSH"
    buffer_size: int | None = None
    max_frequency: float | None = None
    unfiltered: bool = False
    snapshot: bool = True
    snapshot_length: int | None = None


def staged(test: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
    """A test that runs on the stage's event loop."""

    async def run() -> None:
        async with Stage(PushAdapter(Book())) as stage:
            await test(stage)

    return lambda: asyncio.run(run())


def tell(stage: Stage, *changes: PushChange) -> None:
    assert isinstance(stage.adapter, PushAdapter)
    stage.adapter.tell(changes)


@staged
async def test_a_device_has_a_status_and_the_time_of_its_last_change(stage: Stage) -> None:
    watcher = stage.watch("DEV-d1", "status status_timestamp")
    assert watcher.lines() == ["U,1,1,ACTIVE|1700000000000"]
    tell(stage, SaveDevice(replace(DEVICE, status=DeviceStatus.SUSPENDED, status_millis=1_700_000_000_500)))
    assert watcher.lines() == ["U,1,1,SUSPENDED|1700000000500"]


@staged
async def test_a_subscription_has_all_fields_of_the_specification(stage: Stage) -> None:
    watcher = stage.watch("SUB-s1", DETAILS)
    values = "ACTIVE|1700000000001|{}|#|item1|stock_name last_price|STOCKS|MERGE|1|unlimited"
    assert watcher.lines() == [f"U,1,1,{values}"]
    tell(stage, SaveSubscription(replace(FIRST, status=SubscriptionStatus.TRIGGERED, status_millis=1_700_000_000_002)))
    assert watcher.lines() == ["U,1,1,TRIGGERED|1700000000002|^8"]


def test_limits_are_numbers_or_unlimited_under_both_names() -> None:
    fields = subscription_fields(SECOND)
    assert (fields["buffer_size"], fields["requested_buffer_size"]) == ("unlimited", "unlimited")
    assert (fields["max_frequency"], fields["requested_max_frequency"]) == ("0.5", "0.5")
    assert subscription_fields(replace(SECOND, max_frequency=0.00001))["max_frequency"] == "0.00001"


@staged
async def test_the_list_of_a_device_begins_with_all_subscriptions_and_goes_with_them(stage: Stage) -> None:
    watcher = stage.watch("SUBS-d1", "key command", Mode.COMMAND)
    assert watcher.lines() == ["U,1,1,SUB-s1|ADD", "EOS,1,1"]
    tell(stage, SaveDevice(DEVICE), SaveSubscription(SECOND))
    # What is left out is as before: ADD.
    assert watcher.lines() == ["U,1,1,SUB-s2|"]
    tell(stage, SaveSubscription(replace(SECOND, format='{"a":1}')))
    assert watcher.lines() == []
    tell(stage, DropSubscription("s1"))
    assert watcher.lines() == ["U,1,1,SUB-s1|DELETE"]
    tell(stage, DropDevice("d1"))
    assert watcher.lines() == ["U,1,1,SUB-s2|"]


@staged
async def test_a_subscription_that_moves_to_another_device_moves_to_its_list(stage: Stage) -> None:
    old, new = (stage.watch(f"SUBS-{id}", "key command", Mode.COMMAND) for id in ("d1", "d2"))
    old.lines(), new.lines()
    tell(stage, SaveSubscription(replace(FIRST, device="d2")), DropDevice("d1"))
    assert old.lines() == ["U,1,1,|DELETE"]
    assert new.lines() == ["U,1,1,SUB-s1|ADD"]


@staged
async def test_a_list_that_is_subscribed_to_again_is_whole_again(stage: Stage) -> None:
    first = stage.watch("SUBS-d1", "key command", Mode.COMMAND)
    first.lines()
    first.session.unsubscribe(1)
    tell(stage, SaveSubscription(SECOND))
    second = stage.watch("SUBS-d1", "key command", Mode.COMMAND)
    assert second.lines() == ["U,1,1,SUB-s1|ADD", "EOS,1,1"]


@staged
async def test_a_site_has_its_public_key_and_the_next_one_when_that_is_read(stage: Stage) -> None:
    assert isinstance(stage.adapter, PushAdapter)
    book = stage.adapter._book
    assert isinstance(book, Book)
    watcher = stage.watch("WEB-shop", "public_key")
    assert watcher.lines() == ["U,1,1,first key"]
    book.read_keys()
    assert watcher.lines() == []
    book.keys["shop"] = "second key"
    book.read_keys()
    assert watcher.lines() == ["U,1,1,second key"]


# -- who may see them -------------------------------------------------------------------------------------------------


class Denying(MetadataAdapter):
    """It would refuse everything, if it were asked."""

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> list[str]:
        raise Refusal(Reason.GROUP, "asked")


def granted(session: str, wish: Asked) -> Grant:
    authority = SetAuthority(AdapterSet("SET", Denying(), {"PUSH": PushAdapter(Book())}))
    return asyncio.run(authority.judge(SessionFacts(session, None, "SET", ClientFacts("", False, {})), wish))


@pytest.mark.parametrize(
    ("group", "mode"), [("DEV-d1", "MERGE"), ("SUBS-d1", "COMMAND"), ("SUB-s1", "MERGE"), ("DEV-d1 SUB-s1", "MERGE")]
)
def test_a_session_sees_its_devices_without_the_metadata_adapter_being_asked(group: str, mode: str) -> None:
    grant = granted("S1", Asked(group, "a b", mode))
    assert [item.name for item in grant.items] == group.split()
    assert grant.fields == ("a", "b")


def test_every_session_sees_the_public_key_of_a_site() -> None:
    assert granted("S2", Asked("WEB-shop", "public_key")).fields == ("public_key",)


def test_a_site_without_a_key_is_refused() -> None:
    with pytest.raises(Refusal, match="There is no site other for Web Push that has a key"):
        granted("S2", Asked("WEB-other", "public_key"))


@pytest.mark.parametrize("group", ["DEV-d1", "SUBS-d1", "SUB-s1", "DEV-d1 DEV-d2"])
def test_a_session_that_has_not_registered_the_device_is_refused(group: str) -> None:
    with pytest.raises(Refusal, match="registered in this session") as refused:
        granted("S2", Asked(group))
    assert refused.value.reason is Reason.GROUP


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (Asked("DEV-d2"), Reason.GROUP),
        (Asked("SUB-s9"), Reason.GROUP),
        (Asked("item1"), Reason.GROUP),
        (Asked(" "), Reason.GROUP),
        (Asked("DEV-d1", " "), Reason.SCHEMA),
        (Asked("DEV-d1", mode="DISTINCT"), Reason.MODE),
        (Asked("SUBS-d1", mode="MERGE"), Reason.MODE),
        (Asked("DEV-d1", selector="x"), Reason.SELECTOR),
    ],
)
def test_what_is_no_item_here_or_in_another_mode_is_refused(wish: Asked, reason: Reason) -> None:
    with pytest.raises(Refusal) as refused:
        granted("S1", wish)
    assert refused.value.reason is reason
