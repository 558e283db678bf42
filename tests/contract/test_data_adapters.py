"""What a data adapter may rely on, and what clients see of it, whatever process it is in."""

from __future__ import annotations

from itertools import count

import pytest

from penstock.wire.tlcp.values import decode_values
from tests.adapters.remote.support import Client
from tests.contract.backends import Backend

pytestmark = pytest.mark.interop

_numbers = count()


def fresh(prefix: str = "item") -> str:
    """An item that no other test has touched."""
    return f"{prefix}{next(_numbers)}"


def subscribe(backend: Backend, client: Client, item: str, schema: str, mode: str = "MERGE") -> None:
    """And wait until the adapter has heard of it: before that it may not publish."""
    client.subscribe(1, item, schema, mode)
    client.read("SUBOK", "SUBCMD")
    backend.reports.expect("subscribe", item=item)


def update(backend: Backend, item: str, event: dict[str, str | None], snapshot: bool = False) -> None:
    backend.do("update", item=item, event=event, snapshot=snapshot)


def test_an_item_is_subscribed_for_the_first_client_and_given_up_after_the_last(
    backend: Backend, client: Client
) -> None:
    item = fresh()
    subscribe(backend, client, item, "x")
    with backend.server.client() as second:
        second.subscribe(1, item, "x")
        second.read("SUBOK")
        client.unsubscribe(1)
        client.read("UNSUB")
        second.unsubscribe(1)
        second.read("UNSUB")
    backend.reports.expect("unsubscribe", item=item)
    assert len(backend.reports.find("subscribe", item=item)) == 1
    assert len(backend.reports.find("unsubscribe", item=item)) == 1


@pytest.mark.parametrize(
    "value", ["x", "", None, "a|b", "100 %", "x + y", "#", "$", "é ü 😀", "a,b", "line\r\nline", " ", "\t", "%41"]
)
def test_every_value_reaches_the_client_as_it_is(backend: Backend, client: Client, value: str | None) -> None:
    item = fresh()
    subscribe(backend, client, item, "x y", "DISTINCT")
    update(backend, item, {"x": "before", "y": "same"})
    update(backend, item, {"x": value, "y": "same"})
    before = decode_values(client.read("U").split(",", 3)[3], None, 2)
    assert decode_values(client.read("U").split(",", 3)[3], before, 2) == (value, "same")


@pytest.mark.parametrize("item", ["a|b", "é", "100%", "x+y", "#", "$", "😀"])
def test_every_name_of_an_item_reaches_the_adapter_as_it_is(backend: Backend, client: Client, item: str) -> None:
    name = item + str(next(_numbers))
    subscribe(backend, client, name, "x")
    update(backend, name, {"x": "1"})
    assert client.values() == ["1"]


def test_merge_snapshot_comes_first_and_changes_after_it(backend: Backend, client: Client) -> None:
    item = fresh()
    backend.do("state", item=item, events=[{"x": "1", "y": "2"}])
    subscribe(backend, client, item, "x y")
    assert client.values() == ["1", "2"]
    update(backend, item, {"y": "3"})
    assert client.values() == ["", "3"]


def test_distinct_snapshot_has_an_end_and_newcomers_get_as_many_events_as_are_kept(
    backend: Backend, client: Client
) -> None:
    item = fresh()
    backend.do("state", item=item, events=[{"x": "1"}, {"x": "2"}])
    subscribe(backend, client, item, "x", "DISTINCT")
    assert [client.read("U", "EOS") for _ in range(3)] == ["U,1,1,1", "U,1,1,2", "EOS,1,1"]
    for value in "345":
        update(backend, item, {"x": value})
        assert client.values() == [value]
    with backend.server.client() as second:
        second.subscribe(1, item, "x", "DISTINCT")
        assert [second.read("U", "EOS") for _ in range(4)] == ["U,1,1,3", "U,1,1,4", "U,1,1,5", "EOS,1,1"]


def test_command_tables_are_kept_row_by_row(backend: Backend, client: Client) -> None:
    item = fresh()
    backend.do("state", item=item, events=[{"key": "k", "command": "ADD", "x": "1"}])
    subscribe(backend, client, item, "key command x", "COMMAND")
    assert client.values() == ["k", "ADD", "1"]
    client.read("EOS")
    update(backend, item, {"key": "k", "command": "UPDATE", "x": "2"})
    update(backend, item, {"key": "l", "command": "ADD", "x": "3"})
    update(backend, item, {"key": "k", "command": "DELETE"})
    assert [client.values() for _ in range(3)] == [["", "UPDATE", "2"], ["l", "ADD", "3"], ["k", "DELETE", "#"]]


def test_raw_events_come_one_by_one(backend: Backend, client: Client) -> None:
    item = fresh("plain")
    subscribe(backend, client, item, "x", "RAW")
    for value in ("1", "1", "2"):
        update(backend, item, {"x": value})
    assert [client.values() for _ in range(3)] == [["1"], [""], ["2"]]


def test_an_item_without_snapshot_ends_it_at_once(backend: Backend, client: Client) -> None:
    item = fresh("plain")
    subscribe(backend, client, item, "x", "DISTINCT")
    assert client.read("EOS", "U") == "EOS,1,1"
    update(backend, item, {"x": "1"})
    assert client.values() == ["1"]


def test_a_snapshot_may_be_sent_and_ended_later(backend: Backend, client: Client) -> None:
    item = fresh()
    subscribe(backend, client, item, "x", "DISTINCT")
    update(backend, item, {"x": "1"}, snapshot=True)
    backend.do("end", item=item)
    assert client.values() == ["1"]
    assert client.read("EOS") == "EOS,1,1"


def test_clearing_empties_the_item(backend: Backend, client: Client) -> None:
    item = fresh()
    backend.do("state", item=item, events=[{"x": "1"}])
    subscribe(backend, client, item, "x", "DISTINCT")
    client.read("EOS")
    backend.do("clear", item=item)
    assert client.read("CS") == "CS,1,1"


@pytest.mark.parametrize("item", ["refused", "broken"])
def test_an_item_that_cannot_be_subscribed_stays_without_data_and_others_do_not_suffer(
    backend: Backend, client: Client, item: str
) -> None:
    good = fresh()
    client.subscribe(1, item, "x")
    client.read("SUBOK")
    backend.reports.expect("subscribe", item=item)
    client.subscribe(2, good, "x")
    client.read("SUBOK")
    backend.reports.expect("subscribe", item=good)
    update(backend, good, {"x": "1"})
    assert client.read("U") == "U,2,1,1"


def test_a_returning_client_gets_a_new_snapshot(backend: Backend, client: Client) -> None:
    item = fresh()
    backend.do("state", item=item, events=[{"x": "1"}])
    subscribe(backend, client, item, "x")
    assert client.values() == ["1"]
    backend.do("state", item=item, events=[{"x": "2"}])
    client.unsubscribe(1)
    client.read("UNSUB")
    client.subscribe(2, item, "x")
    assert client.values() == ["2"]
