from __future__ import annotations

import threading
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client import ClientState
from penstock.client.events import Update as TlcpUpdate
from penstock.testing.text6_push import EndOfSnapshot, Update
from penstock.testing.text6_reader import Accepted, PushReader
from penstock.wire.text6.values import decode_values
from tests.conformance.conftest import MovableClock
from tests.conformance.text6.phrases import OK, SYNC_ERROR, Device, creation
from tests.support.background import BackgroundServer
from tests.support.effort import tries
from tests.support.raw import TIMEOUT, Exchange, params

FIELDS = ("x", "y", "z")


def sessions(server: BackgroundServer) -> int:
    return server.call(len, server.server.kernel.sessions)


@pytest.mark.conformance("text6.life.lost")
def test_a_session_whose_connection_is_lost_is_closed(
    server: BackgroundServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = threading.Event()

    def unsubscribe(item: str) -> None:
        left.set()

    monkeypatch.setattr(server.adapter, "unsubscribe", unsubscribe)
    with device.create() as tap:
        device.add(tap.session)
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"
    assert left.wait(TIMEOUT)
    assert device.ask("bind_session", params(session=tap.session)) == SYNC_ERROR
    assert device.control(tap.session, op="constrain") == SYNC_ERROR
    assert sessions(server) == 0


@pytest.mark.conformance("text6.life.time-out")
def test_a_session_that_nobody_binds_in_time_is_a_sync_error(device: Device, clock: MovableClock) -> None:
    with device.create() as tap:
        assert device.control(tap.session, op="force_rebind") == OK
        assert tap.read_rest() == "LOOP\r\n"
        clock.advance(10.1)
        assert device.ask("bind_session", params(session=tap.session)) == SYNC_ERROR


@pytest.mark.conformance("text6.life.unbound")
def test_updates_are_kept_while_nobody_is_bound_as_their_mode_says(server: BackgroundServer, device: Device) -> None:
    with device.create(polling=True) as tap:
        for number, mode in enumerate(("RAW", "MERGE", "DISTINCT"), start=1):
            device.add(tap.session, number, id=mode, mode=mode)
            for value in "123":
                server.update(mode, x=value)
        with device.bind(tap.session, polling=True) as poll:
            lines = poll.read_rest().split("\r\n")
    assert sorted(lines[:-2]) == ["1,1|1", "1,1|2", "1,1|3", "2,1|3", "3,1|1", "3,1|2", "3,1|3"]


@pytest.mark.conformance("text6.life.both")
def test_clients_of_both_protocols_share_items(server: BackgroundServer, exchange: Exchange, device: Device) -> None:
    with device.create() as tap, exchange.stream() as stream:
        device.add(tap.session)
        exchange.control(stream.session, reqId=1, op="add", subId=1, group="a", schema="x", mode="MERGE")
        stream.read_until("CONF")
        assert server.adapter.history == [("subscribe", "a")]
        server.update("a", x="a|b")
        assert (tap.read_line(), stream.read_line()) == ("1,1|a\\u007Cb", "U,1,1,a%7Cb")


# Whatever an adapter may publish: anything but halves of surrogate pairs.
VALUES = st.none() | st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("$#|\\\"'^%,\r\n\u2028😀"), max_size=12
)
EVENTS = st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1)
_items = count(1)


@pytest.mark.conformance("text6.life.same-values")
def test_a_client_of_each_protocol_sees_the_same_values(server: BackgroundServer, device: Device) -> None:
    """For any events, in every mode without keys; both clients subscribe before the first event."""

    @given(st.sampled_from(("RAW", "MERGE", "DISTINCT")), st.lists(EVENTS, min_size=1, max_size=12))
    @settings(max_examples=tries(60), deadline=None)
    def check(mode: str, events: list[dict[str, str | None]]) -> None:
        item = f"same{next(_items)}"
        older, newer = both(server, device, item, mode, events)
        assert older == newer

    check()


def both(
    server: BackgroundServer, device: Device, item: str, mode: str, events: list[dict[str, str | None]]
) -> tuple[list[tuple[str | None, ...]], list[tuple[str | None, ...]]]:
    """What a client of each protocol makes of these events, and of a last one that ends the reading."""
    last: dict[str, str | None] = dict.fromkeys(FIELDS, "the end")
    schema = " ".join(FIELDS)
    client = ClientState()
    exchange = device.exchange
    with exchange.http() as old, exchange.http() as new:
        old.post("create_session", creation(), query="")
        old.read_head()
        reader = PushReader(stream=True)
        seen: list[object] = []
        while not seen:
            seen += reader.feed(old.read_some())
        assert isinstance(seen[0], Accepted)
        assert device.add(seen[0]["SessionId"], id=item, schema=schema, mode=mode) == OK
        request = client.create_session(adapter_set="TEST")
        new.post(request.name, request.body(), query=f"LS_protocol={client.version}")
        new.read_head()
        while client.session_id is None:
            client.receive_data(new.read_some())
        number, wish = client.subscribe(item, schema, mode=mode)
        exchange.request(wish.name, wish.line, f"LS_protocol={client.version}")
        for event in (*events, last):
            server.call(server.adapter.publish, item, event)
        older: list[tuple[str | None, ...]] = []
        while not older or older[-1] != tuple(last.values()):
            for push in reader.feed(old.read_some()):
                assert not isinstance(push, EndOfSnapshot)
                if isinstance(push, Update):
                    older.append(decode_values(push.values, older[-1] if older else None, len(FIELDS)))
        newer: list[tuple[str | None, ...]] = []
        while not newer or newer[-1] != tuple(last.values()):
            for found in client.receive_data(new.read_some()):
                if isinstance(found, TlcpUpdate):
                    newer.append(found.values)
        assert client.subscriptions[number].values[1] == older[-1]
    return older, newer
