"""Events that make no sense, and events that are merely huge, over real sockets, beside clients that notice nothing.

The same without sockets, and more of it: tests/kernel/test_bad_events.py. What is done with each: docs/decisions.md.
"""

from __future__ import annotations

import logging
import string
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import islice, product
from types import TracebackType
from typing import Any

import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.support.background import BackgroundServer
from tests.support.raw import PROTOCOL, TIMEOUT, Exchange, Socket, Stream, params
from tests.support.witness import ErrorLog, Witness

MEGABYTE = 1_000_000
LOG = "penstock.adapters.source"
QUIET: dict[str, Any] = {"send_sync": False, "keepalive_millis": 30_000}

# Seconds of this process, in which the server is, too: far more than it takes on a slow machine, far less than anything
# quadratic would.
BOUND = 20.0


class LargeSocket(Socket):
    """Takes messages of any size, as browsers do."""

    def __init__(self, host: str, port: int) -> None:
        self._stack = ExitStack()
        self.connection = self._stack.enter_context(
            connect(
                f"ws://{host}:{port}/lightstreamer",
                subprotocols=[Subprotocol(f"{PROTOCOL}.lightstreamer.com")],
                open_timeout=TIMEOUT,
                max_size=None,
                compression=None,
                proxy=None,
            )
        )
        self._lines = []
        self.session = ""


class Client:
    """A session over HTTP streaming or WebSocket; its subscriptions are to the data adapter PLAIN."""

    def __init__(self, server: BackgroundServer, transport: str, **wishes: Any) -> None:
        self.exchange = Exchange(server.host, server.port)
        self.connection: Stream | LargeSocket
        if transport == "HTTP":
            self.connection = self.exchange.stream(**QUIET, **wishes)
        else:
            self.connection = LargeSocket(server.host, server.port)
            self.connection.create(**QUIET, **wishes)
        self.numbers = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.__exit__(kind, error, trace)

    def ask(self, line: str) -> str:
        """Send a control request; its answer."""
        if isinstance(self.connection, Stream):
            return self.exchange.request("control", f"{params(session=self.connection.session)}&{line}")[0]
        self.connection.send("control", line)
        return self.connection.read_until("REQOK", "REQERR", "ERROR")[-1]

    def add(self, group: str, schema: str, mode: str) -> str:
        """Subscribe; the answer. A space between names goes as `+`: requests have their limit too."""
        self.numbers += 1
        wanted = params(reqId=self.numbers, op="add", subId=self.numbers, data_adapter="PLAIN", mode=mode)
        return self.ask(f"{wanted}&LS_group={group.replace(' ', '+')}&LS_schema={schema.replace(' ', '+')}")

    def subscribe(self, group: str, schema: str, mode: str) -> None:
        assert self.add(group, schema, mode) == f"REQOK,{self.numbers}"
        self.connection.read_until("CONF")

    def update(self) -> str:
        """The next update, all else read over."""
        return self.connection.read_until("U")[-1]


@pytest.fixture(params=["HTTP", "WebSocket"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(server: BackgroundServer, transport: str) -> Iterator[Client]:
    # A WebSocket has no length.
    wishes = {"content_length": 100 * MEGABYTE} if transport == "HTTP" else {}
    with Client(server, transport, **wishes) as found:
        yield found


@pytest.fixture
def bystander(errors: ErrorLog, server: BackgroundServer) -> Iterator[Witness]:
    """Clients of another item, undisturbed to the end; and no error may be logged."""
    with closing(Witness(server)) as found:
        yield found
        found.still_sees_updates()


def publish(server: BackgroundServer, item: str, event: object) -> None:
    """What adapter PLAIN says, sense or not. Raises what is raised at the adapter."""
    server.call(server.plain.publish, item, event)


def complaints(caplog: pytest.LogCaptureFixture) -> list[tuple[object, object]]:
    """Item and reason of each event of PLAIN that was dropped."""
    found: list[tuple[object, object]] = []
    for record in caplog.records:
        fields: Mapping[str, object] = record.__dict__.get("fields", {})
        if fields.get("adapter") == "PLAIN":
            assert (record.name, record.levelno, record.getMessage()) == (LOG, logging.WARNING, "event dropped")
            assert fields["adapter_set"] == "TEST"
            found.append((fields["item"], fields["reason"]))
    return found


def short_names(count: int) -> list[str]:
    """As many different names as it takes, of three characters."""
    return ["".join(letters) for letters in islice(product(string.ascii_letters, repeat=3), count)]


# -- nonsense ---------------------------------------------------------------------------------------------------------

NONSENSE: dict[str, Callable[[], object]] = {
    "no event": lambda: None,
    "text": lambda: "x=1",
    "bytes": lambda: {"key": "k", "command": "ADD", "x": b"1"},
    "object": lambda: {"key": "k", "command": "ADD", "x": object()},
    "huge number": lambda: {"key": "k", "command": "ADD", "x": 10**5_000},
    "numbered field": lambda: {"key": "k", "command": "ADD", 7: "x"},
    "surrogate in a value": lambda: {"key": "k", "command": "ADD", "x": "a\ud800b"},
    "surrogate in a field name": lambda: {"key": "k", "command": "ADD", "\udfff": "x"},
    "surrogate in the key": lambda: {"key": "\ud800", "command": "ADD", "x": "1"},
}

MISFITS: dict[str, Callable[[], object]] = {
    "no key": lambda: {"command": "ADD", "x": "1"},
    "no command": lambda: {"key": "k", "x": "1"},
    "unknown command": lambda: {"key": "k", "command": "EXPLODE"},
    "command of 10 MB": lambda: {"key": "k", "command": "C" * 10 * MEGABYTE},
    "DELETE of nothing": lambda: {"key": "nothing", "command": "DELETE"},
}


@pytest.mark.parametrize("mode", ["RAW", "MERGE", "DISTINCT", "COMMAND"])
def test_nonsense_is_dropped_and_logged_and_the_session_goes_on(
    server: BackgroundServer, bystander: Witness, client: Client, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    client.subscribe("t", "key command x", mode)
    events = {**NONSENSE, **(MISFITS if mode == "COMMAND" else {})}
    for name, event in events.items():
        caplog.clear()
        publish(server, "t", event())
        ((item, reason),) = complaints(caplog)
        assert item == "t", name
        assert len(str(reason)) < 200, name
        bystander.still_sees_updates()
    publish(server, "t", {"key": "k", "command": "ADD", "x": "fine"})
    assert client.update() == "U,1,1,k|ADD|fine"


def test_a_row_deleted_twice_is_deleted_once(
    server: BackgroundServer, bystander: Witness, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.subscribe("t", "key command x", "COMMAND")
    for command in ("UPDATE", "DELETE", "DELETE", "ADD"):
        publish(server, "t", {"key": "k", "command": command})
    assert [client.update() for _ in range(3)] == ["U,1,1,k|ADD|#", "U,1,1,|DELETE|", "U,1,1,|ADD|"]
    assert complaints(caplog) == [("t", "DELETE of key 'k', which is not there")]


@pytest.mark.parametrize("item", ["nobody's", "\x00", "\ud800"], ids=ascii)
def test_events_for_an_item_that_nobody_asked_for_are_logged_once(
    server: BackgroundServer, bystander: Witness, client: Client, caplog: pytest.LogCaptureFixture, item: str
) -> None:
    client.subscribe("t", "x", "MERGE")
    for number in range(3):
        publish(server, item, {"x": str(number)})
    assert complaints(caplog) == [(item, "the item has no subscribers; logged once per item")]
    publish(server, "t", {"x": "fine"})
    assert client.update() == "U,1,1,fine"


def test_a_selector_that_fails_on_an_event_does_not_choose_it(
    server: BackgroundServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.subscribe("t", "x", "DISTINCT")
    chosen = params(reqId=9, op="add", subId=9, data_adapter="PLAIN", group="t", schema="x", mode="DISTINCT")
    assert client.ask(f"{chosen}&LS_selector=odd") == "REQOK,9"
    client.connection.read_until("CONF")
    for value in ("1", "not a number", "2", "3"):
        publish(server, "t", {"x": value})
    updates = [client.update() for _ in range(6)]
    assert [line for line in updates if line.startswith("U,1,")] == [
        "U,1,1,1",
        "U,1,1,not a number",
        "U,1,1,2",
        "U,1,1,3",
    ]
    assert [line for line in updates if line.startswith("U,9,")] == ["U,9,1,1", "U,9,1,3"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (record.name, record.getMessage()) == ("penstock.adapters.selecting", "selector failed")
    assert record.__dict__["fields"] == {"adapter_set": "TEST", "selector": "odd"}


# -- strange, but in order --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\x1b[2J", "\ufeff", "\ufffe", "🐟", "\U0010ffff"], ids=ascii)
def test_text_that_utf_8_can_carry_arrives_as_it_is(
    server: BackgroundServer, bystander: Witness, client: Client, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    client.subscribe("t", "x", "RAW")
    publish(server, "t", {"x": text})
    assert client.update() == f"U,1,1,{text}"
    assert complaints(caplog) == []


def test_item_and_field_names_may_hold_nul(server: BackgroundServer, bystander: Witness, client: Client) -> None:
    client.subscribe("a%00b", "x%00y", "RAW")
    publish(server, "a\x00b", {"x\x00y": "fine"})
    assert client.update() == "U,1,1,fine"


@pytest.mark.parametrize(("group", "schema"), [("%ED%A0%80", "x"), ("t", "%ED%BF%BF")], ids=["item", "field"])
def test_a_request_cannot_name_what_utf_8_cannot_carry(
    server: BackgroundServer, bystander: Witness, client: Client, group: str, schema: str
) -> None:
    assert client.add(group, schema, "RAW").split(",")[:3] == ["REQERR", "1", "67"]
    client.subscribe("t", "x", "RAW")
    publish(server, "t", {"x": "fine"})
    assert client.update() == f"U,{client.numbers},1,fine"


# -- huge -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["RAW", "MERGE", "DISTINCT", "COMMAND"])
def test_a_value_of_10_mb_arrives_whole(
    server: BackgroundServer, bystander: Witness, client: Client, mode: str
) -> None:
    client.subscribe("t", "key command x", mode)
    text = "0123456789" * MEGABYTE
    started = time.process_time()
    publish(server, "t", {"key": "k", "command": "ADD", "x": text})
    bystander.still_sees_updates()
    line = client.update()
    assert time.process_time() - started < BOUND
    assert len(line) == len("U,1,1,k|ADD|") + len(text)
    assert line == f"U,1,1,k|ADD|{text}", "the value has changed on its way"
    publish(server, "t", {"key": "k", "command": "UPDATE", "x": "short"})
    assert client.update().endswith("|short")


def test_a_value_longer_than_a_connection_may_be_goes_alone_on_the_next(
    server: BackgroundServer, bystander: Witness
) -> None:
    with Client(server, "HTTP", content_length=MEGABYTE) as client:
        client.subscribe("t", "x", "RAW")
        text = "0123456789" * MEGABYTE
        publish(server, "t", {"x": text})
        assert isinstance(client.connection, Stream)
        client.connection.read_until("LOOP")
        with client.exchange.http() as http:
            http.post("bind_session", params(session=client.connection.session, content_length=MEGABYTE, **QUIET))
            http.read_head()
            line = http.read_until("U")[-1]
            assert len(line) == len("U,1,1,") + len(text)
            assert line == f"U,1,1,{text}", "the value has changed on its way"
            publish(server, "t", {"x": "next"})
            assert http.read_until("LOOP") == ["LOOP,0"]


@pytest.mark.parametrize("mode", ["RAW", "MERGE"])
def test_an_event_of_10_000_fields_arrives_whole(
    server: BackgroundServer, bystander: Witness, client: Client, mode: str
) -> None:
    fields = short_names(10_000)
    client.subscribe("t", " ".join(fields), mode)
    started = time.process_time()
    for end in "!?" * 10:
        publish(server, "t", {name: f"{name}{end}" for name in fields})
        # Read before the next: in MERGE mode a client that lags behind gets only the latest.
        assert client.update() == f"U,1,1,{'|'.join(f'{name}{end}' for name in fields)}"
    assert time.process_time() - started < BOUND


def test_a_group_of_10_000_items_is_accepted_and_one_of_10_001_refused(
    server: BackgroundServer, bystander: Witness, client: Client
) -> None:
    items = short_names(10_001)
    started = time.process_time()
    refusal = client.add(" ".join(items), "x", "MERGE")
    assert refusal == "REQERR,1,21,LS_group: More than 10000 items%2C the most allowed"
    assert server.plain.subscribed == set()
    client.subscribe(" ".join(items[:-1]), "x", "MERGE")
    for item in items[:-1]:
        publish(server, item, {"x": item})
    found = {client.update() for _ in range(10_000)}
    assert found == {f"U,2,{position},{item}" for position, item in enumerate(items[:-1], start=1)}
    assert time.process_time() - started < BOUND
