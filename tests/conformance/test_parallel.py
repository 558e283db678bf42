"""Requests of one connection over real sockets: side by side where nothing else is asked for, in order where it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from queue import Queue

import pytest

from penstock.adapters import AdapterSet, ClientFacts, DataAdapter, MetadataAdapter
from penstock.adapters.session_calls import MAX_CALLS
from penstock.kernel.ports import SessionFacts, Statistics, SubscriptionFacts
from penstock.testing.clock import Clock
from tests.adapters.stage import SetServer
from tests.conformance.phrases import row
from tests.support.raw import CID, TIMEOUT, Socket, params, tags

TOGETHER = 6


class Feed(DataAdapter):
    quick = True


class Threads(MetadataAdapter):
    """Plain methods that wait: for one another (group `together`), or for the test."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(TOGETHER)
        self.gate = threading.Event()
        self.heard: Queue[tuple[str, object]] = Queue()
        self._lock = threading.Lock()
        self.under_way = 0
        self.most = 0

    def wait(self) -> None:
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self.gate.wait(TIMEOUT)
        with self._lock:
            self.under_way -= 1

    def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> None:
        if user == "slow":
            self.gate.wait(TIMEOUT)

    def new_session(self, session: SessionFacts) -> None:
        if session.user == "slow":
            self.heard.put(("new session", "begins"))
            self.gate.wait(TIMEOUT)
        self.heard.put(("new session", "ends"))

    def session_closed(self, session: SessionFacts) -> None:
        self.heard.put(("session closed", session.user))

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:
        if group == "together":
            # Whoever is alone here waits in vain.
            self.barrier.wait(TIMEOUT)
        elif group == "slow":
            self.wait()
        return [group]

    def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        self.heard.put(("subscribed", subscription.number))

    def unsubscribed(
        self, session: SessionFacts, subscription: SubscriptionFacts, statistics: Sequence[Statistics]
    ) -> None:
        self.heard.put(("unsubscribed", subscription.number))

    def message(self, session: SessionFacts, text: str) -> str | None:
        if text == "slow":
            self.wait()
        return None

    def hear(self) -> tuple[str, object]:
        return self.heard.get(timeout=TIMEOUT)


class Place:
    def __init__(self) -> None:
        self.threads = Threads()
        self.server = SetServer([AdapterSet("SET", self.threads, {"DEFAULT": Feed()}, timeout_millis=20_000)])

    def socket(self, **parameters: object) -> Socket:
        socket = self.server.exchange.socket()
        socket.create("SET", reduce_head=False, send_sync=False, keepalive_millis=30_000, **parameters)
        return socket


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    try:
        with made.server:
            yield made
            made.threads.gate.set()
    finally:
        made.threads.gate.set()
        made.threads.barrier.abort()


@pytest.fixture
def clock(place: Place, monkeypatch: pytest.MonkeyPatch) -> Clock:
    kernel = place.server.server.kernel
    moved = Clock(kernel.clock())
    monkeypatch.setattr(kernel, "clock", moved)
    return moved


def advance(place: Place, clock: Clock, seconds: float) -> None:
    def move() -> None:
        clock.advance(seconds)
        place.server.server.turns.run()

    place.server.call(move)


def add(number: int, group: str = "a", **more: object) -> str:
    request = {"reqId": number, "op": "add", "subId": number, "group": group, "schema": "x", "mode": "MERGE"}
    return params(**{**request, **more})


def answers(socket: Socket, count: int) -> list[str]:
    """So many answers to requests, without the notifications between them."""
    found: list[str] = []
    while len(found) < count:
        found.append(socket.read_until("REQOK", "REQERR", "ERROR", "CONERR")[-1])
    return found


# -- side by side -----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("parallel.ws")
def test_requests_of_a_websocket_do_not_wait_for_each_other(place: Place) -> None:
    with place.socket() as socket:
        for number in range(1, TOGETHER + 1):
            socket.send("control", add(number, "together"))
        assert sorted(answers(socket, TOGETHER)) == [f"REQOK,{number}" for number in range(1, TOGETHER + 1)]


@pytest.mark.conformance("parallel.batch.ws")
def test_lines_of_a_websocket_message_do_not_wait_for_each_other(place: Place) -> None:
    with place.socket() as socket:
        socket.send("control", *(add(number, "together") for number in range(1, TOGETHER + 1)))
        assert sorted(answers(socket, TOGETHER)) == [f"REQOK,{number}" for number in range(1, TOGETHER + 1)]


@pytest.mark.conformance("parallel.batch.http")
def test_lines_of_an_http_body_do_not_wait_for_each_other(place: Place) -> None:
    with place.server.open() as stream:
        body = "\r\n".join(add(number, "together") for number in range(1, TOGETHER + 1))
        found = place.server.exchange.request("control", body, f"LS_protocol=TLCP-2.4.0&LS_session={stream.session}")
        assert sorted(found) == [f"REQOK,{number}" for number in range(1, TOGETHER + 1)]


@pytest.mark.conformance("parallel.answers")
def test_a_quick_request_is_answered_while_a_slow_one_before_it_waits(place: Place) -> None:
    with place.socket() as socket:
        socket.send("control", add(1, "slow"), params(reqId=2, op="constrain"))
        assert answers(socket, 1) == ["REQOK,2"]
        place.threads.gate.set()
        assert answers(socket, 1) == ["REQOK,1"]


@pytest.mark.conformance("parallel.calls")
def test_a_session_has_so_many_calls_at_a_time_and_others_have_theirs_meanwhile(place: Place) -> None:
    with place.socket() as greedy, place.socket() as modest:
        for number in range(1, 41):
            greedy.send("control", add(number, "slow"))
        for number in range(41, 81):
            greedy.send("msg", params(reqId=number, message="slow", msg_prog=number - 40))
        assert answers(greedy, 40) == [f"REQOK,{number}" for number in range(41, 81)]
        modest.send("control", add(1))
        assert answers(modest, 1) == ["REQOK,1"]
        assert place.threads.most <= MAX_CALLS
        place.threads.gate.set()
        assert sorted(answers(greedy, 40)) == sorted(f"REQOK,{number}" for number in range(1, 41))
        assert place.threads.most == MAX_CALLS


# -- in order ---------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("parallel.subscription")
def test_requests_about_one_subscription_keep_their_order(place: Place) -> None:
    with place.socket() as socket:
        socket.send("control", add(1, "slow", reqId="add"), params(reqId="reconf", op="reconf", subId=1))
        socket.send("control", params(reqId="delete", op="delete", subId=1))
        socket.send("control", add(1, "a", reqId="again"))
        socket.send("control", add(2, "a", reqId="other"))
        assert answers(socket, 1) == ["REQOK,other"]
        place.threads.gate.set()
        assert answers(socket, 4) == ["REQOK,add", "REQOK,reconf", "REQOK,delete", "REQOK,again"]
    heard = [place.threads.hear() for _ in range(5)]
    assert [one for one in heard if one[1] != 2] == [
        ("new session", "ends"),
        ("subscribed", 1),
        ("unsubscribed", 1),
        ("subscribed", 1),
    ]


@pytest.mark.conformance("parallel.subscription.connections")
def test_requests_about_one_subscription_keep_their_order_over_several_connections(place: Place) -> None:
    with place.server.open() as stream, place.server.exchange.http() as first, place.server.exchange.http() as second:
        first.post("control", params(session=stream.session) + "&" + add(1, "slow"))
        while not place.threads.under_way:
            place.server.call(int)
        second.post("control", params(session=stream.session, reqId=2, op="delete", subId=1))
        # One that is answered behind it on a third connection: the second one's request has been read by then.
        assert place.server.exchange.control(stream.session, reqId=3, op="constrain") == ["REQOK,3"]
        place.threads.gate.set()
        for http, answer in ((first, b"REQOK,1\r\n"), (second, b"REQOK,2\r\n")):
            http.read_head()
            assert http.read_body() == answer


@pytest.mark.conformance("parallel.creation")
def test_what_means_the_session_that_is_being_opened_waits_for_it_and_nothing_else_does(place: Place) -> None:
    with place.server.open() as other, place.server.exchange.socket() as socket:
        socket.send("create_session", f"{params(adapter_set='SET', user='slow', reduce_head=True)}&LS_cid={CID}")
        socket.send("control", add(1))
        socket.send("msg", params(reqId=2, message="m", msg_prog=1))
        socket.send("bind_session", "")
        socket.send("control", params(session=other.session, reqId=3, op="constrain"))
        socket.send("wsok")
        assert [socket.read_line() for _ in range(2)] == ["REQOK,3", "WSOK"]
        place.threads.gate.set()
        found = [line for line in (socket.read_line() for _ in range(7)) if not line.startswith(("MSGDONE", "CONF"))]
        assert tags(found[:1]) == ["CONOK"]
        assert sorted(tags(found[1:])) == ["CONERR", "REQOK", "REQOK", "SUBOK"]
        assert "CONERR,69,A session is already bound to this WebSocket" in found


@pytest.mark.conformance("parallel.creation.refused")
def test_what_waits_for_a_session_that_is_refused_is_refused(place: Place) -> None:
    with place.server.exchange.socket() as socket:
        socket.send("create_session", f"{params(adapter_set='NONE')}&LS_cid={CID}")
        socket.send("control", add(1))
        assert tags(answers(socket, 2)) == ["CONERR", "REQERR"]


@pytest.mark.conformance("parallel.end")
def test_a_session_is_told_to_have_closed_after_all_calls_about_it(place: Place) -> None:
    with place.socket() as socket:
        assert place.threads.hear() == ("new session", "ends")
        socket.send("control", add(1, "slow"))
        while not place.threads.under_way:
            place.server.call(int)
        socket.send("control", params(reqId=2, op="destroy"))
        assert answers(socket, 1) == ["REQOK,2"]
        place.threads.gate.set()
        # The one whose session has gone is refused; its adapter is not told of a subscription that cannot be.
        assert answers(socket, 1) == ["REQERR,1,20,LS_session: The session has been closed"]
        assert place.threads.hear() == ("session closed", None)


# -- signs of life ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sign", [row("parallel.alive.heartbeat", "heartbeat"), row("parallel.alive.request", "control")]
)
def test_a_request_is_a_sign_of_life_when_it_comes(place: Place, clock: Clock, sign: str) -> None:
    with place.socket(inactivity_millis=2000) as socket:
        socket.send("control", add(1, "slow"))
        for number in range(2, 8):
            advance(place, clock, 1.5)
            socket.send(*(("heartbeat", "") if sign == "heartbeat" else ("control", add(number, "slow"))))
            socket.send("wsok")
            assert socket.read_line() == "WSOK"
        place.threads.gate.set()
        # Those that have waited side by side are answered in any order.
        answered = range(1, 8 if sign == "control" else 2)
        assert sorted(answers(socket, len(answered))) == [f"REQOK,{number}" for number in answered]


@pytest.mark.conformance("parallel.alive.http")
def test_a_heartbeat_behind_a_slow_request_on_an_http_connection_is_a_sign_of_life(place: Place, clock: Clock) -> None:
    with place.socket(inactivity_millis=2000) as socket, place.server.exchange.http() as http:
        http.post("control", params(session=socket.session) + "&" + add(1, "slow"))
        while not place.threads.under_way:
            place.server.call(int)
        for _ in range(6):
            advance(place, clock, 1.5)
            session = place.server.server.kernel.find_session(socket.session)
            before = session._deadlines._last_request
            http.post("heartbeat", params(session=socket.session))
            while session._deadlines._last_request == before:
                place.server.call(int)
        place.threads.gate.set()
        http.read_head()
        assert http.read_body() == b"REQOK,1\r\n"


@pytest.mark.conformance("parallel.alive.unread")
def test_a_client_that_is_not_listened_to_is_not_taken_for_dead() -> None:
    place = Place()
    place.server = SetServer(
        [AdapterSet("SET", place.threads, {"DEFAULT": Feed()}, timeout_millis=20_000)],
        {"limits.max_unanswered_requests": 2},
    )
    with place.server, pytest.MonkeyPatch.context() as patch, place.socket(inactivity_millis=2000) as socket:
        kernel = place.server.server.kernel
        clock = Clock(kernel.clock())
        patch.setattr(kernel, "clock", clock)
        for number in (1, 2, 3):
            socket.send("control", add(number, "slow"))
        while not all(session.channel and not session.channel.listening for session in kernel.sessions.values()):
            place.server.call(int)
        for _ in range(4):
            advance(place, clock, 1.5)
        place.threads.gate.set()
        assert sorted(answers(socket, 3)) == ["REQOK,1", "REQOK,2", "REQOK,3"]
        # Now it is heard again, and says nothing.
        advance(place, clock, 1.5)
        socket.send("wsok")
        socket.read_until("WSOK")
        advance(place, clock, 1.0)
        with pytest.raises(Exception, match="no close frame"):
            socket.read_line()


# -- the whole creation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra",
    [
        row("create.LS_ttl_millis.notification", ""),
        row(
            "create.LS_ttl_millis.combo",
            "\r\n" + params(op="add", subId=1, group="slow", schema="x", mode="MERGE"),
        ),
    ],
)
def test_the_time_that_a_client_waits_covers_the_whole_creation(place: Place, extra: str) -> None:
    threads = place.threads
    place.server.call(setattr, threads, "authenticate", _let_in)
    user = "kim" if extra else "slow"
    with place.server.exchange.http() as http:
        http.post("create_session", f"{params(adapter_set='SET', user=user, ttl_millis=1000)}&LS_cid={CID}{extra}")
        http.read_head()
        assert http.read_body() == b"CONERR,5,No answer within LS_ttl_millis=1000\r\n"
    assert not place.server.server.kernel.sessions
    threads.gate.set()
    heard = [threads.hear() for _ in range(2 if extra else 3)]
    expected: list[tuple[str, object]] = [("new session", "ends"), ("session closed", user)]
    assert heard == (expected if extra else [("new session", "begins"), *expected])


def _let_in(*_: object) -> None:
    return None


@pytest.mark.conformance("parallel.alive.idle")
def test_a_slow_creation_is_not_idleness() -> None:
    place = Place()
    settings = {"limits.idle_timeout_millis": 100}
    place.server = SetServer([AdapterSet("SET", place.threads, {"DEFAULT": Feed()}, 20_000)], settings)
    with place.server, place.server.exchange.socket() as socket:
        socket.send("create_session", f"{params(adapter_set='SET', user='slow')}&LS_cid={CID}")
        timer = threading.Timer(0.4, place.threads.gate.set)
        timer.start()
        assert tags(socket.read_until("CONS")) == ["CONOK", "SERVNAME", "CLIENTIP", "CONS"]
        timer.join()
