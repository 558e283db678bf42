"""What a client sends is what a server understands: every request is read back by the server's own parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.requests import CLIENT_ID, OutgoingRequest, StreamWishes, parameter_line, subprotocol
from penstock.client.tlcp import ClientState
from penstock.wire.form import split_lines
from penstock.wire.tlcp.control import Request as ServerRequest
from penstock.wire.tlcp.requests import (
    BindSession,
    Constrain,
    CreateSession,
    Destroy,
    ForceRebind,
    Heartbeat,
    Reconfigure,
    SendMessage,
    StreamOptions,
    Subscribe,
    Unsubscribe,
    parse_requests,
)
from penstock.wire.tlcp.version import NEWEST, Version

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.fixture
def state() -> ClientState:
    state = ClientState()
    state.create_session()
    state.receive_line("CONOK,S1,50000,5000,*")
    return state


def understood(request: OutgoingRequest) -> ServerRequest:
    """As it arrives in a WebSocket message; over HTTP it is the same."""
    name, _, text = request.message().partition("\r\n")
    (parsed,) = parse_requests(name, split_lines(text), {})
    assert isinstance(parsed, ServerRequest), parsed
    assert parsed.unknown == ()
    assert parse_requests(request.name, split_lines(request.body().decode()), {}) == [parsed]
    return parsed


def test_reserved_characters_and_everything_else_are_percent_encoded_in_utf_8() -> None:
    assert parameter_line(group="a&b=c+d %\r\n\u00e9") == "LS_group=a%26b%3Dc%2Bd%20%25%0D%0A%C3%A9"
    assert parameter_line(snapshot=True, ack=False, subId=3, rate=2.50, user=None) == (
        "LS_snapshot=true&LS_ack=false&LS_subId=3&LS_rate=2.5"
    )


def test_where_a_request_goes() -> None:
    assert OutgoingRequest("control", "").target(Version(2, 4)) == "/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0"
    assert subprotocol(NEWEST) == "TLCP-2.5.0.lightstreamer.com"


@given(user=TEXT, password=TEXT, adapter_set=TEXT)
def test_a_session_is_asked_for(user: str, password: str, adapter_set: str) -> None:
    wishes = StreamWishes(keepalive_millis=2_000, inactivity_millis=9_000, content_length=5_000, send_sync=False)
    parsed = understood(
        ClientState().create_session(wishes, user=user, password=password, adapter_set=adapter_set, max_bandwidth=0.5)
    )
    assert parsed == CreateSession(
        None,
        stream=StreamOptions(keepalive_millis=2_000, inactivity_millis=9_000, content_length=5_000, send_sync=False),
        user=user,
        password=password,
        adapter_set=adapter_set,
        max_bandwidth=0.5,
        client_id=CLIENT_ID,
        supported_diffs=None,
        ttl_millis=None,
        controls=(),
    )


def test_a_session_is_bound_again(state: ClientState) -> None:
    wishes = StreamWishes(polling=True, polling_millis=1_000, idle_millis=2_000, reduce_head=True)
    parsed = understood(state.bind_session(wishes, recovery_from=0))
    options = StreamOptions(polling=True, polling_millis=1_000, idle_millis=2_000, reduce_head=True)
    assert parsed == BindSession("S1", stream=options, recovery_from=0)


@given(group=TEXT, schema=TEXT, adapter=TEXT, selector=TEXT)
def test_items_are_subscribed(group: str, schema: str, adapter: str, selector: str) -> None:
    state = ClientState()
    state.create_session()
    state.receive_line("CONOK,S1,50000,5000,*")
    number, request = state.subscribe(
        group,
        schema,
        mode="DISTINCT",
        data_adapter=adapter,
        snapshot=7,
        max_frequency=2.5,
        buffer_size=3,
        selector=selector,
        ack=False,
    )
    assert understood(request) == Subscribe(
        "S1",
        "1",
        subscription=number,
        data_adapter=adapter,
        group=group,
        schema=schema,
        mode="DISTINCT",
        selector=selector,
        buffer_size=3,
        max_frequency=2.5,
        unfiltered=False,
        snapshot=True,
        snapshot_length=7,
        ack=False,
    )


def test_every_other_request_is_understood(state: ClientState) -> None:
    assert understood(state.unsubscribe(3, ack=False)) == Unsubscribe("S1", "1", subscription=3, ack=False)
    assert understood(state.reconfigure(3, 0.25)) == Reconfigure(
        "S1", "2", subscription=3, changes_frequency=True, max_frequency=0.25
    )
    assert understood(state.constrain("unlimited")) == Constrain("S1", "3", changes_bandwidth=True, max_bandwidth=None)
    assert understood(state.force_rebind(500, True)) == ForceRebind("S1", "4", polling_millis=500, close_socket=True)
    assert understood(state.destroy(-4, "why, so")) == Destroy(
        "S1", "5", cause_code=-4, cause_message="why, so", close_socket=False
    )
    assert understood(state.heartbeat()) == Heartbeat("S1")


@given(text=TEXT)
def test_messages_are_sent(text: str) -> None:
    state = ClientState()
    state.create_session()
    state.receive_line("CONOK,S1,50000,5000,*")
    sequenced = state.message(text, sequence="S", progressive=4, max_wait_millis=100, ack=False)
    assert understood(sequenced) == SendMessage(
        "S1", "1", message=text, sequence="S", progressive=4, max_wait_millis=100, ack=False, outcome=True
    )
    forgotten = state.message(text, outcome=False)
    assert understood(forgotten) == SendMessage(
        "S1", "2", message=text, sequence=None, progressive=None, max_wait_millis=None, ack=True, outcome=False
    )
