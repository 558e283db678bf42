"""Connections to a real NATS server: requests, answers, events, a stream that is read on, and a server that is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from tests.services.connections.world import TwinServer, modify, source, target
from tests.support.nats_server import NatsServer
from tests.support.waiting import wait_until

LONG = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    directory = tmp_path_factory.mktemp("nats")
    with NatsServer(directory, f'jetstream {{ store_dir: "{directory}/streams" }}') as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinServer]:
    with TwinServer(tmp_path_factory.mktemp("server")) as made:
        made.make_policy()
        yield made


def document(broker: NatsServer, **more: Any) -> dict[str, Any]:
    return {"connectionType": "nats", "uri": broker.url, **more}


def test_requests_are_answered_and_events_are_published(broker: NatsServer, server: TwinServer) -> None:
    server.make_thing("plant:pump")
    server.connect(
        "pump",
        document(
            broker,
            sources=[source("in.*", replyTarget={"address": "{{ header:reply-to }}"})],
            targets=[
                target(
                    "events.{{ thing:name }}",
                    "_/_/things/twin/events?filter=eq(thingId,'plant:pump')",
                    issuedAcknowledgementLabel="pump:sent",
                    headerMapping={"by": "{{ connection:id }}"},
                )
            ],
        ),
    )

    async def use() -> tuple[Any, Any, Msg]:
        client = await nats.connect(broker.url)
        events = await client.subscribe("events.>")
        await client.flush()
        done = await client.request("in.1", modify("plant:pump", "/attributes/bar", 3), timeout=LONG)
        refused = await client.request("in.1", b"{", timeout=LONG)
        answer = await asyncio.to_thread(
            server.twins.put,
            "/things/plant:pump/attributes/bar",
            json=4,
            params={"requested-acks": "pump:sent,twin-persisted"},
        )
        assert answer.json()["pump:sent"]["status"] == 200, answer.text
        # What the connection has changed itself does not come back to it, so this is the first.
        event = await events.next_msg(LONG)
        await client.close()
        return json.loads(done.data), json.loads(refused.data), event

    done, refused, event = asyncio.run(use())
    assert done["status"] == 201
    assert "it is not JSON" in refused["value"]["message"]
    assert (event.subject, json.loads(event.data)["value"]) == ("events.pump", 4)
    assert event.headers is not None
    assert event.headers["by"] == "pump"
    server.operator.delete("/pump")


def test_a_stream_is_read_on_where_it_was_left(broker: NatsServer, server: TwinServer) -> None:
    server.make_thing("plant:valve")
    numbers = iter(range(1_000))

    async def publish(count: int) -> None:
        client = await nats.connect(broker.url)
        stream = client.jetstream()
        await stream.add_stream(name="orders", subjects=["orders.>"])
        for _ in range(count):
            await stream.publish("orders.valve", modify("plant:valve", "/attributes/n", next(numbers)))
        await stream.publish("orders.valve", b"poison")
        await client.close()

    async def pending() -> tuple[int, int]:
        client = await nats.connect(broker.url)
        (found,) = await client.jetstream().consumers_info("orders")
        await client.close()
        return found.num_pending or 0, found.num_ack_pending or 0

    def command(name: str) -> None:
        answer = server.operator.post("/valve/command", content=f"connectivity.commands:{name}")
        assert answer.status_code == 200, answer.text

    asyncio.run(publish(20))
    server.connect("valve", document(broker, sources=[source("orders.>")], specificConfig={"stream": "orders"}))
    server.wait_for("plant:valve/attributes/n", lambda n: n == 19)
    wait_until(lambda: asyncio.run(pending()) == (0, 0), "all messages are acknowledged, the refused one as well")
    command("closeConnection")
    asyncio.run(publish(20))
    command("openConnection")
    server.wait_for("plant:valve/attributes/n", lambda n: n == 39)
    counts = [event["attributes"]["n"] for event in server.history("plant:valve") if "attributes" in event]
    assert counts == list(range(40))
    wait_until(lambda: server.metrics("valve")["inbound"]["orders.>"]["success"] == 40, "all are counted")
    assert server.metrics("valve")["inbound"]["orders.>"]["failure"] == 2
    server.operator.delete("/valve")


def test_a_server_that_goes_away_is_found_again_and_nothing_is_lost(broker: NatsServer, server: TwinServer) -> None:
    server.make_thing("plant:patient")
    events = "_/_/things/twin/events?filter=eq(thingId,'plant:patient')"
    server.connect("patient", document(broker, targets=[target("late.x", events)]))
    broker.kill()
    wait_until(lambda: server.status("patient")["liveStatus"] != "open", "the loss is noticed")
    for number in range(20):
        server.twins.put("/things/plant:patient/attributes/n", json=number)
    assert server.status("patient")["waitingMessages"] == 20
    broker.start()

    async def hear() -> list[int]:
        client = await nats.connect(broker.url)
        late = await client.subscribe("late.x")
        await client.flush()
        found = [json.loads((await late.next_msg(LONG)).data)["value"] for _ in range(20)]
        await client.close()
        return found

    assert asyncio.run(hear()) == list(range(20))
    server.operator.delete("/patient")
