"""Data adapter THINGS: a client of TLCP watches twins, as far as policies let it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from penstock.client import Client, Subscription, SubscriptionRefused, connect
from penstock.client.errors import SessionLost
from penstock.kernel.ports import DeviceFacts
from tests.adapters.access.world import password_of
from tests.doors.ditto.site import MERGE, Site, entry, policy
from tests.support.raw import Exchange, Socket, params, tags

PATIENCE = 15.0
numbers = itertools.count(1)


@pytest.fixture
def thing() -> str:
    return f"ns:thing{next(numbers)}"


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE))


def watching(site: Site, user: str = "alice", password: str | None = None) -> Client:
    url = f"http://127.0.0.1:{site.server.stream_ports[0]}"
    return connect(url, adapter_set="DITTO", user=user, password=password or password_of(user), proxy=None)


def watch(client: Client, things: str, fields: str, mode: str = "MERGE") -> Subscription:
    return client.subscribe(things, fields, data_adapter="THINGS", mode=mode)


@contextmanager
def watching_raw(site: Site, user: str, thing: str, fields: str) -> Iterator[Socket]:
    """The lines that a client gets."""
    with Exchange("127.0.0.1", site.server.stream_ports[0]).socket() as socket:
        socket.create("DITTO", user=user, password=password_of(user))
        wish = {"op": "add", "subId": 1, "mode": "MERGE", "group": thing, "data_adapter": "THINGS", "snapshot": True}
        socket.send("control", params(reqId=1, schema=fields, **wish))
        yield socket


async def said(client: httpx.Client, method: str, path: str, **more: Any) -> None:
    """A request to the HTTP API, which must succeed."""
    answer = await asyncio.to_thread(client.request, method, path, **more)
    assert answer.is_success, answer.text


def test_a_thing_is_an_item_whose_fields_are_pointers(site: Site, alice: httpx.Client, thing: str) -> None:
    async def test() -> None:
        value = {"attributes": {"text": "hello", "number": 1.5, "flag": True, "none": None, "object": {"a": [1]}}}
        await said(alice, "PUT", f"/things/{thing}", json=value)
        async with watching(site) as client:
            fields = (
                "attributes/text /attributes/number /attributes/flag /attributes/none /attributes/object /x thingId"
            )
            update = await anext(watch(client, thing, fields))
            assert update.is_snapshot
            assert list(update.values.values()) == ["hello", "1.5", "true", None, '{"a":[1]}', None, thing]
            whole = await anext(watch(client, thing, "/ _revision"))
            assert whole.values["_revision"] == "1"
            assert (whole.values["/"] or "").startswith(f'{{"thingId":"{thing}"')

    run(test())


def test_changes_come_as_they_happen_and_only_those_that_are_watched(
    site: Site, alice: httpx.Client, thing: str
) -> None:
    async def test() -> None:
        await said(alice, "PUT", f"/things/{thing}", json={"attributes": {"a": 1, "b": 1}})
        async with watching(site) as client:
            subscription = watch(client, thing, "attributes/a attributes/b")
            await anext(subscription)
            await said(alice, "PUT", f"/things/{thing}/attributes/c", json=1)
            await said(alice, "PUT", f"/things/{thing}/attributes/b", json=2)
            assert (await anext(subscription)).changed == {"attributes/b": "2"}
            await said(alice, "PATCH", f"/things/{thing}", content=b'{"attributes":{"a":null}}', headers=MERGE)
            assert (await anext(subscription)).changed == {"attributes/a": None}

    run(test())


def test_another_who_wants_other_fields_gets_them_at_once(site: Site, alice: httpx.Client, thing: str) -> None:
    async def test() -> None:
        await said(alice, "PUT", f"/things/{thing}", json={"attributes": {"a": 1, "b": 2}})
        async with watching(site) as client, watching(site) as other:
            first = watch(client, thing, "attributes/a")
            await anext(first)
            second = watch(other, thing, "attributes/b")
            assert (await anext(second)).values == {"attributes/b": "2"}
            await said(alice, "PUT", f"/things/{thing}/attributes/b", json=3)
            assert (await anext(second)).values == {"attributes/b": "3"}
            second.close()
            await said(alice, "PUT", f"/things/{thing}/attributes/b", json=4)
            # What nobody watched meanwhile is fresh again for the next who does.
            third = watch(client, thing, "attributes/b")
            assert (await anext(third)).values == {"attributes/b": "4"}
            await said(alice, "PUT", f"/things/{thing}/attributes/a", json=9)
            assert (await anext(first)).changed == {"attributes/a": "9"}

    run(test())


def test_a_deleted_thing_has_only_nulls_and_comes_back(site: Site, alice: httpx.Client, thing: str) -> None:
    async def test() -> None:
        await said(alice, "PUT", f"/things/{thing}", json={"attributes": {"a": 1}})
        async with watching(site) as client:
            subscription = watch(client, thing, "attributes/a")
            await anext(subscription)
            await said(alice, "DELETE", f"/things/{thing}")
            assert (await anext(subscription)).values == {"attributes/a": None}
            await said(alice, "PUT", f"/things/{thing}", json={"policyId": thing, "attributes": {"a": 2}})
            assert (await anext(subscription)).values == {"attributes/a": "2"}

    run(test())


def test_changes_of_documents_are_sent_as_patches_and_texts_never_are(
    site: Site, alice: httpx.Client, thing: str
) -> None:
    parts = {f"key{number}": f"value {number}" for number in range(50)}
    alice.put(f"/things/{thing}", json={"attributes": {"object": parts, "text": '{"looks":"like JSON"}'}})
    with watching_raw(site, "alice", thing, "/attributes/object /attributes/text") as socket:
        assert socket.read_until("U")[-1].startswith("U,1,1,{")
        alice.patch(
            f"/things/{thing}",
            content=b'{"attributes":{"object":{"key7":"new"},"text":"{\\"looks\\":\\"like more JSON\\"}"}}',
            headers=MERGE,
        )
        line = socket.read_until("U")[-1]
        assert line == 'U,1,1,^P[{"op":"replace","path":"/key7","value":"new"}]|{"looks":"like more JSON"}'


def test_names_with_spaces_are_escaped_in_a_group(site: Site, alice: httpx.Client) -> None:
    async def test() -> None:
        await said(alice, "PUT", "/things/ns:two%20words=x", json={"attributes": {"a": 1}})
        async with watching(site) as client:
            subscription = watch(client, "ns:two=20words=3Dx", "attributes/a")
            assert (await anext(subscription)).values == {"attributes/a": "1"}

    run(test())


# -- who may -----------------------------------------------------------------------------------------------------------


async def refusal(subscription: Subscription) -> int:
    with pytest.raises(SubscriptionRefused) as refused:
        await anext(subscription)
    return refused.value.code


def test_only_ditto_users_come_in(site: Site) -> None:
    async def test() -> None:
        with pytest.raises(SessionLost, match="wrong"):
            async with watching(site, password="wrong"):
                pass

    run(test())


def test_things_of_others_are_as_if_they_were_not_there(site: Site, alice: httpx.Client, thing: str) -> None:
    async def test() -> None:
        await said(alice, "PUT", f"/things/{thing}", json={})
        async with watching(site, "bob") as client:
            hidden = await refusal(watch(client, thing, "thingId"))
            assert hidden == await refusal(watch(client, "ns:missing", "thingId"))
            assert hidden == await refusal(watch(client, "nonsense", "thingId"))

    run(test())


def test_a_reader_of_parts_watches_these_parts(site: Site, alice: httpx.Client, thing: str) -> None:
    async def test() -> None:
        reader = entry("bob")
        reader["resources"]["thing:/attributes/open"] = {"grant": ["READ"], "revoke": []}
        value = {"_policy": policy(READER=reader), "attributes": {"open": 1, "secret": 2}}
        await said(alice, "PUT", f"/things/{thing}", json=value)
        async with watching(site, "bob") as client:
            update = await anext(watch(client, thing, "attributes/open thingId _revision"))
            assert list(update.values.values()) == ["1", thing, "1"]
            for fields in ("attributes/secret", "/", "attributes", "attributes/open attributes/secret"):
                await refusal(watch(client, thing, fields))

    run(test())


def test_who_loses_the_right_to_read_loses_the_subscription(site: Site, alice: httpx.Client, thing: str) -> None:
    alice.put(f"/things/{thing}", json={"_policy": policy(READER=entry("bob", thing=["READ"])), "attributes": {"a": 1}})
    with watching_raw(site, "bob", thing, "/attributes/a") as socket:
        assert socket.read_until("U")[-1] == "U,1,1,1"
        alice.put(f"/policies/{thing}/entries/OTHER", json=entry("carol", thing=["READ"]))
        alice.delete(f"/policies/{thing}/entries/READER")
        alice.put(f"/things/{thing}/attributes/a", json=2)
        assert "U" not in tags(socket.read_until("UNSUB"))


def test_a_thing_that_moves_under_another_policy_is_watched_by_those_of_that_policy(
    site: Site, alice: httpx.Client, thing: str
) -> None:
    alice.put(f"/things/{thing}", json={"_policy": policy(READER=entry("bob", thing=["READ"])), "attributes": {"a": 1}})
    alice.put(f"/policies/{thing}-other", json=policy())
    with watching_raw(site, "bob", thing, "/attributes/a") as socket:
        socket.read_until("U")
        alice.put(f"/things/{thing}/policyId", json=f"{thing}-other")
        socket.read_until("UNSUB")


@pytest.mark.parametrize("mode", ["RAW", "DISTINCT", "COMMAND"])
def test_things_are_watched_in_merge_mode_only(site: Site, alice: httpx.Client, thing: str, mode: str) -> None:
    async def test() -> None:
        await said(alice, "PUT", f"/things/{thing}", json={})
        async with watching(site) as client:
            await refusal(watch(client, thing, "key command", mode=mode))

    run(test())


def test_a_field_that_is_no_pointer_is_refused(site: Site, alice: httpx.Client, thing: str) -> None:
    async def test() -> None:
        await said(alice, "PUT", f"/things/{thing}", json={})
        async with watching(site) as client:
            await refusal(watch(client, thing, "attributes//a"))

    run(test())


def test_things_have_no_push_notifications_because_rights_may_be_lost(site: Site, alice: httpx.Client) -> None:
    device = DeviceFacts("Apple", "com.example", "token")
    with Exchange("127.0.0.1", site.server.stream_ports[0]).socket() as socket:
        socket.create("DITTO", user="alice", password=password_of("alice"))
        answer = site.ask_authority(
            socket.session, lambda authority, session: authority.register_device(session, device)
        )
    assert answer == (43, "PN_appId: Things have no push notifications, which would outlive the right to read")
