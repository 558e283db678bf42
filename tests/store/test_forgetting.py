"""What must be forgotten is in no row any more, and in a file of SQLite in no byte; what is others' stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock.push.records import Flow
from penstock.store.forgetting import forget
from penstock.store.push import PushStore
from penstock.store.store import Store
from penstock.wire.tlex.vocabulary import TlcType
from tests.store.devices import device, everything, notification, subscription
from tests.store.test_store import log


def test_a_controller_goes_with_its_identifier_in_past_sessions(store: Store) -> None:
    account = store.add_account("city")
    gone = store.add_tlc("test", "NLZH0001", TlcType.TCP_STREAMING, account.uuid)
    kept = store.add_tlc("test", "NLZH0002", TlcType.TCP_STREAMING, account.uuid)
    elsewhere = store.add_tlc("other", "NLZH0001", TlcType.TCP_STREAMING, account.uuid)
    store.log_sessions([log("one", 1, 2), replace(log("two", 1, 2), domain="other")])
    assert forget(store, (), {gone.uuid}) == 2
    assert {each.uuid for each in store.tlcs()} == {kept.uuid, elsewhere.uuid}
    found = {each.id: each.identifiers for each in store.session_logs(0, 9)}
    assert found == {"one": ("NLZH0002",), "two": ("NLZH0001", "NLZH0002")}
    assert forget(store, (), {gone.uuid}) == 0


def test_subscriptions_that_name_an_item_go_with_what_waits_for_them(store: Store, url: str) -> None:
    push = PushStore.join(store, "node")

    def following(id: str, adapter: str, *items: str) -> object:
        flow = Flow("SHOP", adapter, " ".join(items), "a", "MERGE", items, ("a",))
        return replace(subscription(id, "phone"), flow=flow)

    secret = "lives-in-oak-street-17"
    records = [
        device("phone"),
        following("hers", "CLIENTS", "anna-of-the-hill"),
        following("both", "CLIENTS", "carl", "anna-of-the-hill"),
        following("his", "CLIENTS", "carl"),
        following("namesake", "OTHER", "anna-of-the-hill"),
        replace(notification("n1", "phone", "hers"), payload=secret),
        notification("n2", "phone", "his"),
    ]
    push.write(everything(*records))  # type: ignore[arg-type]
    assert forget(store, {("SHOP", "CLIENTS", "anna-of-the-hill")}, ()) == 3
    left = push.load()
    assert sorted(each.id for each in left.subscriptions) == ["his", "namesake"]
    assert [each.id for each in left.notifications] == ["n2"]
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        for file in path.parent.glob(f"{path.name}*"):
            assert secret.encode() not in file.read_bytes(), file.name
