"""The asyncio client against a real server, through cuts, loops, lost sessions and restarts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from penstock.client import (
    Client,
    ItemUpdate,
    MessageRefused,
    OutcomeUnknown,
    SessionLost,
    Subscription,
    SubscriptionRefused,
    connect,
)
from penstock.client import subscription as subscriptions
from penstock.client.events import Update
from penstock.client.subscription import MAX_WAITING, SubscriptionWishes
from penstock.kernel.session import Session
from tests.support.background import BackgroundServer

# Seconds that a test may take. Far more than it should, also on a busy machine: only a failure is slow.
PATIENCE = 45.0


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE))


@contextlib.asynccontextmanager
async def client_of(server: BackgroundServer, user: str | None = None) -> AsyncIterator[Client]:
    async with connect(server.url, adapter_set="TEST", user=user, proxy=None) as client:
        yield client


def only_session(server: BackgroundServer) -> Session:
    (session,) = server.server.kernel.sessions.values()
    return session


def cut(server: BackgroundServer) -> None:
    """Break every connection of the server, without a word."""

    def abort() -> None:
        for connection in list(server.server.stream.connections):
            connection.transport.abort()

    server.call(abort)


async def values(subscription: Subscription, count: int, field: str = "x") -> list[str | None]:
    return [(await anext(subscription)).values[field] for _ in range(count)]


def publish_numbers(server: BackgroundServer, item: str, count: int) -> None:
    """All at once, in the server's own thread."""
    for number in range(count):
        server.adapter.publish(item, {"x": str(number)})


# -- data -------------------------------------------------------------------------------------------------------------


def test_updates_come_with_names_and_say_what_has_changed(server: BackgroundServer) -> None:
    server.adapter.state["a"] = {"x": "1", "y": None}

    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe(["a"], ["x", "y"])
            assert await anext(subscription) == ItemUpdate(
                "a", {"x": "1", "y": None}, {"x": "1", "y": None}, is_snapshot=True
            )
            server.update("a", y="two")
            assert await anext(subscription) == ItemUpdate("a", {"x": "1", "y": "two"}, {"y": "two"}, is_snapshot=False)

    run(test())


def test_many_items_and_several_subscriptions_share_one_session(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            raw = client.subscribe("a b", "x", mode="RAW")
            merged = client.subscribe("b", "x", max_frequency="unlimited")
            await asyncio.sleep(0)
            await client.send_message("wait until the subscriptions are there")
            for item, value in (("a", "1"), ("b", "2")):
                server.update(item, x=value)
            assert [((update := await anext(raw)).item, update.values["x"]) for _ in range(2)] == [
                ("a", "1"),
                ("b", "2"),
            ]
            assert await values(merged, 1) == ["2"]
            assert len(server.call(lambda: only_session(server).subscriptions)) == 2

    run(test())


def test_closing_a_subscription_ends_its_iteration_and_tells_the_server(server: BackgroundServer) -> None:
    server.adapter.state["a"] = {"x": "1"}

    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x")
            async for update in subscription:
                assert update.values == {"x": "1"}
                subscription.close()
            await client.send_message("wait until the server has heard")
            assert server.adapter.history == [("subscribe", "a"), ("unsubscribe", "a")]

    run(test())


def test_a_refused_subscription_raises_where_it_is_read_and_leaves_the_others_alone(server: BackgroundServer) -> None:
    server.adapter.state["a"] = {"x": "1"}

    async def test() -> None:
        async with client_of(server) as client:
            refused = client.subscribe("a", "x", data_adapter="NOWHERE")
            good = client.subscribe("a", "x")
            with pytest.raises(SubscriptionRefused, match="Data Adapter not found") as caught:
                await anext(refused)
            assert caught.value.code == 17
            assert await values(good, 1) == ["1"]

    run(test())


def test_a_group_that_the_server_reads_differently_is_given_up_and_unsubscribed(server: BackgroundServer) -> None:
    server.metadata.items = lambda session, data_adapter, group: ["a", "b"]  # type: ignore[method-assign]

    async def test() -> None:
        async with client_of(server) as client:
            with pytest.raises(SubscriptionRefused, match="Expected 1 items and 1 fields but got 2 and 1"):
                await anext(client.subscribe("list", "x"))
            await client.send_message("wait until the server has heard")
            assert server.adapter.subscribed == set()

    run(test())


@pytest.mark.config({"session.max_buffer_size": 2})
def test_events_that_the_server_had_to_drop_are_counted(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x", mode="RAW")
            await client.send_message("wait until the subscription is there")
            server.call(lambda: only_session(server).congest())
            for number in range(5):
                server.update("a", x=str(number))
            server.call(lambda: only_session(server).relieve())
            assert await values(subscription, 2) == ["3", "4"]
            assert subscription.lost == 3

    run(test())


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_leaving_the_client_destroys_the_session_and_ends_the_iterations(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x")
            await client.send_message("wait until the subscription is there")
        assert [update async for update in subscription] == []
        assert server.call(lambda: len(server.server.kernel.sessions)) == 0
        assert server.adapter.history[-1] == ("unsubscribe", "a")
        with pytest.raises(ValueError, match="not open"):
            client.subscribe("a", "x")

    run(test())


def test_a_server_that_says_no_or_is_not_there_is_reported_at_once(server: BackgroundServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nowhere = unused.getsockname()[1]

    async def test() -> None:
        with pytest.raises(SessionLost, match="User/password check failed") as caught:
            async with client_of(server, user="nobody"):
                pass
        assert caught.value.code == 1
        with pytest.raises(SessionLost) as caught:
            async with client_of(server, user="away"):
                pass
        assert caught.value.code == 6
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            async with connect(f"http://127.0.0.1:{nowhere}", proxy=None):
                pass
        with pytest.raises(ValueError, match="is not a server address"):
            connect("localhost")

    run(test())


def test_a_cut_connection_is_recovered_in_the_same_session_without_loss(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x", mode="RAW")
            await client.send_message("wait until the subscription is there")
            found = []
            for number in range(20):
                server.update("a", x=f"{number}")
                cut(server)
                server.update("a", x=f"{number}+")
                found += await values(subscription, 2)
            assert found == [f"{number}{sign}" for number in range(20) for sign in ("", "+")]
            assert (client.sessions, subscription.restarts, subscription.lost) == (1, 0, 0)

    run(test())


def test_a_loop_is_followed_on_the_same_socket(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x")
            await client.send_message("wait until the subscription is there")
            for number in range(5):
                server.call(lambda: only_session(server).rebind())
                server.update("a", x=str(number))
                assert await values(subscription, 1) == [str(number)]
            assert server.call(lambda: len(server.server.stream.connections)) == 1
            assert client.sessions == 1

    run(test())


def test_a_session_that_cannot_be_had_back_is_replaced_and_everything_subscribed_anew(
    server: BackgroundServer,
) -> None:
    server.adapter.state["a"] = {"x": "1"}

    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x")
            assert await values(subscription, 1) == ["1"]
            server.adapter.state["a"] = {"x": "2"}
            server.call(lambda: only_session(server).close(48, "time is up"))
            update = await anext(subscription)
            assert (update.values, update.is_snapshot) == ({"x": "2"}, True)
            assert (client.sessions, subscription.restarts) == (2, 1)

    run(test())


def test_a_recovery_that_comes_too_late_leads_to_a_new_session(server: BackgroundServer) -> None:
    server.adapter.state["a"] = {"x": "1"}

    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x")
            assert await values(subscription, 1) == ["1"]
            server.call(lambda: only_session(server).log.clear())
            server.call(lambda: setattr(only_session(server).log, "first", 99))
            cut(server)
            assert (await anext(subscription)).is_snapshot
            assert client.sessions == 2

    run(test())


def test_an_end_that_is_final_reaches_every_iteration(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x")
            await client.send_message("wait until the subscription is there")
            server.call(lambda: only_session(server).close(32, "by the administrator"))
            with pytest.raises(SessionLost, match="by the administrator"):
                await anext(subscription)
            with pytest.raises(SessionLost):
                client.subscribe("a", "x")
            with pytest.raises(SessionLost):
                await client.send_message("too late")

    run(test())


def test_a_restarted_server_is_found_again() -> None:
    async def test(first: BackgroundServer) -> None:
        first.adapter.state["a"] = {"x": "before"}
        async with client_of(first) as client:
            subscription = client.subscribe("a", "x")
            assert await values(subscription, 1) == ["before"]
            port = first.port
            await asyncio.to_thread(first.stop)
            second = BackgroundServer({"stream.port": port})
            second.adapter.state["a"] = {"x": "after"}
            with second:
                assert await values(subscription, 1) == ["after"]
                assert subscription.restarts == 1
                await client.close()

    with BackgroundServer({}) as first:
        run(test(first))


def test_a_connection_that_falls_silent_is_given_up(server: BackgroundServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.connection.STALL_SECONDS", -4.8)

    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe("a", "x", mode="RAW")
            await client.send_message("wait until the subscription is there")
            old = server.call(lambda: only_session(server).channel)
            while server.call(lambda: only_session(server).channel) is old:
                await asyncio.to_thread(server.call, lambda: None)
            server.update("a", x="1")
            assert await values(subscription, 1) == ["1"]
            assert client.sessions == 1

    run(test())


# -- messages ---------------------------------------------------------------------------------------------------------


def test_a_message_returns_the_adapters_response_or_raises_its_refusal(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            assert await client.send_message("hello") == "got hello"
            assert await client.send_message("& again=1", sequence="S") == "got & again=1"
            with pytest.raises(MessageRefused, match="refused, on purpose") as caught:
                await client.send_message("refuse with code", sequence="S")
            assert caught.value.code == -3
            with pytest.raises(MessageRefused) as caught:
                await client.send_message("bad sequence name", sequence="not a name")
            assert caught.value.code == 65

    run(test())


def test_messages_of_a_sequence_keep_their_order(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            texts = [str(number) for number in range(50)]
            await asyncio.gather(*(client.send_message(text, sequence="S") for text in texts))
            assert server.metadata.messages == texts

    run(test())


def test_messages_under_way_during_cuts_are_processed_once(server: BackgroundServer) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            texts = [str(number) for number in range(40)]
            under_way = asyncio.gather(*(client.send_message(text, sequence="S") for text in texts))
            for _ in range(3):
                await asyncio.sleep(0)
                await asyncio.to_thread(cut, server)
            assert await under_way == [f"got {text}" for text in texts]
            assert server.metadata.messages == texts

    run(test())


def test_a_reader_that_keeps_up_gets_all_of_a_batch_larger_than_what_may_wait(server: BackgroundServer) -> None:
    count = 8 * MAX_WAITING

    async def test() -> None:
        async with client_of(server) as client:
            subscription = client.subscribe(["a"], ["x"], mode="RAW")
            await client.send_message("wait until the subscription is there")
            server.call(publish_numbers, server, "a", count)
            got: list[str | None] = []
            while len(got) < count:
                got += await values(subscription, 1)
                # Something else to do for each.
                await asyncio.sleep(0)
            assert got == [str(number) for number in range(count)]
            assert subscription.lost == 0

    run(test())


def test_a_subscription_that_nobody_reads_does_not_hold_up_the_others(
    server: BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "READER_SECONDS", 0.01)
    count = 2 * MAX_WAITING

    async def test() -> None:
        async with client_of(server) as client:
            unread = client.subscribe(["a"], ["x"], mode="RAW")
            read = client.subscribe(["b"], ["x"], mode="RAW")
            await client.send_message("wait until both are there")
            server.call(publish_numbers, server, "a", count)
            server.update("b", x="last")
            assert await values(read, 1) == ["last"]
            assert unread.lost == count - MAX_WAITING
            assert await values(unread, 1) == [str(count - MAX_WAITING)]

    run(test())


def test_a_message_whose_session_is_lost_has_an_unknown_outcome_and_the_next_waits_for_a_session(
    server: BackgroundServer,
) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            client._progressives["S"] = 5  # The server will wait for those before.
            waiting = asyncio.ensure_future(client.send_message("late", sequence="S"))
            await client.send_message("wait until the server has it")
            server.call(lambda: only_session(server).close(48, "time is up"))
            with pytest.raises(OutcomeUnknown):
                await waiting
            assert await client.send_message("next", sequence="S") == "got next"

    run(test())


# -- a subscription by itself -----------------------------------------------------------------------------------------


def test_a_reader_that_is_too_slow_loses_the_oldest_and_is_told_how_many() -> None:
    async def test() -> None:
        wishes = SubscriptionWishes(("a",), ("x",), "RAW", None, False, None)
        subscription = Subscription(wishes, lambda _: None)
        for number in range(MAX_WAITING + 3):
            subscription.take(Update(1, 1, (str(number),), (0,), False))
        assert subscription.lost == 3
        assert await values(subscription, 1) == ["3"]
        subscription.end(None)
        assert len([update async for update in subscription]) == MAX_WAITING - 1

    run(test())


@pytest.mark.parametrize("items", [[], "", ["a b"], [""]])
def test_names_must_be_names(server: BackgroundServer, items: list[str] | str) -> None:
    async def test() -> None:
        async with client_of(server) as client:
            with pytest.raises(ValueError, match="is not a list of names"):
                client.subscribe(items, "x")

    run(test())
