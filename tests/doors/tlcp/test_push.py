"""Requests about push notifications over real sockets, to a desk in memory."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.adapters import Reason, Refusal
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.tlcp.version import SUPPORTED, Version
from tests.support.background import BackgroundServer
from tests.support.desk import DATA_ADAPTER, MemoryDesk
from tests.support.effort import tries
from tests.support.push_lines import push
from tests.support.raw import CID, Exchange, Http, Socket, Stream, params, tags
from tests.support.witness import ErrorLog

T = TypeVar("T")

# What a client is told: the code, and how the text begins.
TOLD = {
    PushReason.DISABLED: (40, "LS_op=register: "),
    PushReason.UNAVAILABLE: (41, ""),
    PushReason.PLATFORM: (42, "PN_type: "),
    PushReason.APPLICATION: (43, "PN_appId: "),
    PushReason.TRIGGER: (44, "PN_trigger: "),
    PushReason.DEVICE: (45, "PN_deviceId: "),
    PushReason.SUBSCRIPTION: (46, "PN_subscriptionId: "),
    PushReason.ARGUMENT: (47, ""),
    PushReason.SUSPENDED: (48, "PN_deviceId: "),
    PushReason.TOO_LONG: (49, ""),
    PushReason.EMPTY: (50, ""),
    PushReason.PAYLOAD_TOO_LARGE: (51, "PN_notificationFormat: "),
    PushReason.FORMAT_NOT_JSON: (52, "PN_notificationFormat: "),
    PushReason.FORMAT_EMPTY: (53, "PN_notificationFormat: "),
    PushReason.MISMATCH: (56, ""),
    PushReason.MODE: (24, "LS_mode: "),
    PushReason.TOKEN: (65, "PN_deviceToken: "),
    PushReason.CONFLICT: (65, ""),
}


@pytest.fixture(scope="module")
def running() -> Iterator[BackgroundServer]:
    with BackgroundServer({}) as running:
        yield running


@pytest.fixture
def server(running: BackgroundServer, errors: ErrorLog) -> BackgroundServer:
    return running


@pytest.fixture
def desk(server: BackgroundServer) -> Iterator[MemoryDesk]:
    found = MemoryDesk()
    door = server.server.tlcp.push
    server.call(setattr, door, "desk", found)
    yield found
    server.call(setattr, door, "desk", None)


@pytest.fixture
def exchange(server: BackgroundServer) -> Exchange:
    return Exchange(server.host, server.port)


class Client:
    """A session with its requests, over HTTP or over one WebSocket for everything."""

    def __init__(self, exchange: Exchange, transport: str) -> None:
        self.exchange = exchange
        self.link: Stream | Socket
        if transport == "http":
            self.link = exchange.stream()
        else:
            self.link = exchange.socket()
            self.link.create()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        if isinstance(self.link, Stream):
            self.link.http.close()
        else:
            self.link.connection.close()

    def ask(self, line: str) -> str:
        """The answer to a request."""
        if isinstance(self.link, Socket):
            self.link.send("control", line)
            return self.link.read_line()
        (answer,) = self.exchange.request("control", f"{line}&LS_session={self.link.session}")
        return answer

    def told(self) -> str:
        """The next notification."""
        return self.link.read_line()


@pytest.fixture(params=["http", "websocket"])
def client(request: pytest.FixtureRequest, exchange: Exchange, desk: MemoryDesk) -> Iterator[Client]:
    with Client(exchange, request.param) as found:
        yield found


def until(server: BackgroundServer, holds: Callable[[], bool]) -> None:
    """Wait for something to be so on the server's thread."""

    async def wait() -> None:
        while not holds():  # noqa: ASYNC110, those who count tell nobody
            await asyncio.sleep(0)

    asyncio.run_coroutine_threadsafe(wait(), server._loop).result(20)


def hold(server: BackgroundServer, desk: MemoryDesk) -> Callable[[], None]:
    """Have all that is asked of the desk wait, until what is returned is called."""
    gate = desk.gate = server.call(asyncio.Event)
    return lambda: server.call(gate.set)


def reset(http: Http) -> None:
    """Have the connection break when it is closed: a request whose client has only ended its side is answered."""
    http.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# -- what is told ------------------------------------------------------------------------------------------------------


def test_every_request_is_answered_first_and_told_on_the_stream_then(client: Client, desk: MemoryDesk) -> None:
    assert client.ask(push("register", reqId=7)) == "REQOK,7"
    assert client.told() == f"MPNREG,d1,{DATA_ADAPTER}"
    assert client.ask(push("activate", reqId=8, deviceId="d1", subId=3)) == "REQOK,8"
    assert client.told() == "MPNOK,3,s1"
    assert client.ask(push("pn_reconf", deviceId="d1", subscriptionId="s1", trigger="true")) == "REQOK,1"
    assert client.told() == "MPNCONF,s1"
    assert client.ask(push("reset_badge", deviceId="d1")) == "REQOK,1"
    assert client.told() == "MPNZERO,d1"
    assert client.ask(push("deactivate", deviceId="d1")) == "REQOK,1"
    assert client.told() == "MPNDEL,s1"
    assert len(desk.done) == 5


def test_every_subscription_that_is_gone_is_told_and_none_if_none_was_there(client: Client) -> None:
    client.ask(push("register"))
    client.told()
    for number in (1, 2, 3):
        client.ask(push("activate", deviceId="d1", subId=number))
        assert client.told() == f"MPNOK,{number},s{number}"
    assert client.ask(push("deactivate", deviceId="d1", subscriptionId="s2")) == "REQOK,1"
    assert client.told() == "MPNDEL,s2"
    assert client.ask(push("deactivate", deviceId="d1", subscriptionStatus="TRIGGERED")) == "REQOK,1"
    assert client.ask(push("deactivate", deviceId="d1")) == "REQOK,1"
    assert [client.told(), client.told()] == ["MPNDEL,s1", "MPNDEL,s3"]
    assert client.ask(push("deactivate", deviceId="d1")) == "REQOK,1"
    assert client.ask(push("reset_badge", deviceId="d1")) == "REQOK,1"
    assert client.told() == "MPNZERO,d1"


def test_the_number_of_a_subscription_is_that_of_the_request_even_if_it_was_there_before(client: Client) -> None:
    client.ask(push("register"))
    client.told()
    client.ask(push("activate", deviceId="d1", subId=1))
    client.told()
    assert client.ask(push("activate", deviceId="d1", subId=2, subscriptionId="s1")) == "REQOK,1"
    assert client.told() == "MPNOK,2,s1"
    assert client.ask(push("activate", deviceId="d1", subId=3, coalescing=True)) == "REQOK,1"
    assert client.told() == "MPNOK,3,s1"


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_every_version_has_push_notifications(exchange: Exchange, desk: MemoryDesk, version: Version) -> None:
    with exchange.socket(f"{version}.lightstreamer.com") as link:
        link.create()
        link.send("control", push("register"), push("activate", reqId=2, deviceId="d1"))
        assert sorted(link.read_line() for _ in range(4)) == ["MPNOK,1,s1", "MPNREG,d1,PUSH", "REQOK,1", "REQOK,2"]
        line = f"{push('reset_badge', deviceId='d1')}&LS_session={link.session}"
        assert exchange.request("control", line, f"LS_protocol={version}") == ["REQOK,1"]
        assert link.read_line() == "MPNZERO,d1"


def test_the_answer_over_http_is_complete_at_once(exchange: Exchange, desk: MemoryDesk) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        http.post("control", f"{push('register')}&LS_session={stream.session}")
        http.read_head()
        assert http.headers["content-length"] == str(len("REQOK,1\r\n"))


def test_a_poll_that_waits_ends_with_what_is_told(exchange: Exchange, desk: MemoryDesk) -> None:
    with exchange.stream(polling=True) as stream, exchange.http() as poll:
        session = stream.session
        poll.post("bind_session", params(session=session, polling=True, idle_millis=600_000))
        assert exchange.request("control", f"{push('register')}&LS_session={session}") == ["REQOK,1"]
        poll.read_head()
        assert poll.read_body().decode().split("\r\n")[-3:-1] == ["MPNREG,d1,PUSH", "LOOP,0"]


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_the_table_of_codes_is_complete() -> None:
    assert set(TOLD) == set(PushReason)


@pytest.mark.parametrize("reason", PushReason, ids=lambda reason: reason.name)
def test_every_reason_has_its_code_and_names_its_parameter(
    client: Client, desk: MemoryDesk, reason: PushReason
) -> None:
    desk.failure = PushRefusal(reason, "No, because")
    code, beginning = TOLD[reason]
    assert client.ask(push("register", reqId=9)) == f"REQERR,9,{code},{beginning}No%2C because"


def test_a_refusal_of_the_metadata_adapter_keeps_its_code(client: Client, desk: MemoryDesk) -> None:
    desk.failure = Refusal(Reason.CREDENTIALS, "Not you", code=-7)
    assert client.ask(push("register")) == "REQERR,1,-7,Not you"
    desk.failure = Refusal(Reason.GROUP, "no such group")
    assert client.ask(push("register")) == "REQERR,1,21,LS_group: no such group"


def test_an_unexpected_failure_is_68_with_a_number(client: Client, desk: MemoryDesk, errors: ErrorLog) -> None:
    desk.failure = RuntimeError("broken on purpose")
    answer = client.ask(push("register"))
    assert answer.startswith("REQERR,1,68,Internal error ")
    assert "purpose" not in answer
    assert len(errors.records) == 1
    errors.records.clear()


def test_an_unknown_platform_is_42_and_never_reaches_the_desk(client: Client, desk: MemoryDesk) -> None:
    expected = "REQERR,1,42,PN_type: unknown platform Windows%2C expected one of Apple Google Web"
    assert client.ask(push("register", type="Windows")) == expected
    assert len(client.ask(push("register", type="x" * 5000))) < 200
    assert desk.begun == 0


def test_without_a_desk_form_and_session_are_checked_first(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        line = push("register")
        session = f"&LS_session={stream.session}"
        expected = "REQERR,1,40,LS_op=register: the MPN module is disabled"
        assert exchange.request("control", line + session) == [expected]
        assert exchange.request("control", line + "&LS_session=S1")[0].startswith("REQERR,1,20,LS_session")
        assert exchange.request("control", line)[0] == "REQERR,1,20,LS_session is missing"
        line = push("register", type=None)
        assert exchange.request("control", line + session) == ["REQERR,1,65,PN_type is missing"]
        (answer,) = exchange.request("control", push("register") + session, "LS_protocol=TLCP-2.5.0")
        assert answer.startswith("REQERR,1,3,LS_protocol")


# -- order -------------------------------------------------------------------------------------------------------------


def test_requests_of_a_session_are_carried_out_one_after_the_other_even_across_connections(
    server: BackgroundServer, exchange: Exchange, desk: MemoryDesk
) -> None:
    go_on = hold(server, desk)
    with exchange.socket() as link, exchange.socket() as other:
        link.create()
        link.send("control", push("register"), push("activate", reqId=2, deviceId="d1"))
        until(server, lambda: desk.begun == 1)
        session = f"&LS_session={link.session}"
        other.send("control", push("deactivate", reqId=3, deviceId="d1") + session)
        other.send("control", params(reqId=4, op="constrain") + session)
        # What is about something else does not wait.
        assert other.read_line() == "REQOK,4"
        assert desk.begun == 1
        go_on()
        assert other.read_line() == "REQOK,3"
        lines = link.read_until("MPNDEL")
    assert [line for line in lines if line.startswith("REQ")] == ["REQOK,1", "REQOK,2"]
    assert [line for line in lines if line.startswith("MPN")] == ["MPNREG,d1,PUSH", "MPNOK,1,s1", "MPNDEL,s1"]


def test_requests_of_other_sessions_do_not_wait(server: BackgroundServer, exchange: Exchange, desk: MemoryDesk) -> None:
    go_on = hold(server, desk)
    with Client(exchange, "websocket") as first, Client(exchange, "websocket") as second:
        assert isinstance(first.link, Socket)
        assert isinstance(second.link, Socket)
        first.link.send("control", push("register"))
        second.link.send("control", push("register", deviceToken="other"))
        until(server, lambda: desk.begun == 2)
        go_on()
        assert first.link.read_until("MPNREG") == ["REQOK,1", "MPNREG,d1,PUSH"]
        assert second.link.read_until("MPNREG") == ["REQOK,1", "MPNREG,d2,PUSH"]


def test_a_batch_over_http_is_answered_whole(exchange: Exchange, desk: MemoryDesk) -> None:
    with exchange.stream() as stream:
        batch = [push("register")]
        batch += [push("activate", reqId=number, deviceId="d1", subId=number) for number in range(2, 40)]
        batch += [push("activate", reqId=40, deviceId="nobody", subId=40), "LS_reqId=41&LS_op=activate"]
        answers = exchange.request("control", "\r\n".join(batch), f"LS_protocol=TLCP-2.4.0&LS_session={stream.session}")
        assert {line.split(",")[1]: line for line in answers} == {
            **{str(number): f"REQOK,{number}" for number in range(1, 40)},
            "40": "REQERR,40,45,PN_deviceId: nobody is not registered in this session",
            "41": "REQERR,41,65,PN_deviceId is missing",
        }
        told = [stream.read_line() for _ in range(39)]
        assert told == ["MPNREG,d1,PUSH", *(f"MPNOK,{number},s{number - 1}" for number in range(2, 40))]


Step = tuple[Literal["activate", "deactivate", "pn_reconf", "reset_badge"], int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["activate", "deactivate", "pn_reconf", "reset_badge"]), st.integers(1, 4)), max_size=12
)


@given(STEPS)
@settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_requests_sent_at_once_have_the_answers_of_those_sent_one_by_one(
    server: BackgroundServer, exchange: Exchange, steps: list[Step]
) -> None:
    def lines() -> list[str]:
        found = [push("register", reqId="r")]
        for number, (operation, which) in enumerate(steps):
            changes: dict[str, object] = {"reqId": number, "deviceId": "d1"}
            if operation == "activate":
                changes |= {"subId": number + 1, "group": f"g{which}", "coalescing": True}
            elif operation != "reset_badge":
                changes |= {"subscriptionId": f"s{which}"}
                changes |= {"group": f"g{which}"} if operation == "pn_reconf" else {}
            found.append(push(operation, **changes))
        return found

    def play(apart: bool) -> tuple[set[str], list[str]]:
        server.call(setattr, server.server.tlcp.push, "desk", MemoryDesk())
        requests = lines()
        with exchange.socket() as link:
            link.create()
            heard: list[str] = []
            for line in requests if apart else []:
                link.send("control", line)
                heard += link.read_until("REQOK", "REQERR")
            if not apart:
                link.send("control", *requests)
                while sum(tag in ("REQOK", "REQERR") for tag in tags(heard)) < len(requests):
                    heard.append(link.read_line())
            link.send("control", params(reqId="last", op="destroy"))
            heard += link.read_until("END")
        server.call(setattr, server.server.tlcp.push, "desk", None)
        answers = {line for line in heard if line.startswith("REQ")}
        return answers, [line for line in heard if line.startswith("MPN")]

    assert play(apart=False) == play(apart=True)


# -- connections that break, sessions that end -------------------------------------------------------------------------


def test_what_is_told_counts_for_recovery(exchange: Exchange, desk: MemoryDesk) -> None:
    with exchange.stream() as stream:
        requests = [
            push("register"),
            push("activate", deviceId="d1"),
            push("pn_reconf", deviceId="d1", subscriptionId="s1"),
            push("reset_badge", deviceId="d1"),
            push("deactivate", deviceId="d1"),
        ]
        for request in requests:
            assert exchange.request("control", f"{request}&LS_session={stream.session}") == ["REQOK,1"]
        told = [stream.read_line() for _ in requests]
        assert tags(told) == ["MPNREG", "MPNOK", "MPNCONF", "MPNZERO", "MPNDEL"]
        stream.http.close()
        for point in (5, 0, 3):
            bind = params(session=stream.session, recovery_from=point, polling=True)
            assert exchange.request("bind_session", bind)[2:] == [f"PROG,{point}", *told[point:], "LOOP,0"]
        bind = params(session=stream.session, recovery_from=6, polling=True)
        assert exchange.request("bind_session", bind)[0].startswith("CONERR,4,")


@pytest.mark.parametrize("transport", ["http", "websocket"])
def test_a_request_whose_client_goes_away_is_finished_and_told_after_recovery(
    server: BackgroundServer, exchange: Exchange, desk: MemoryDesk, transport: str
) -> None:
    with exchange.stream() as stream:
        go_on = hold(server, desk)
        line = f"{push('register')}&LS_session={stream.session}"
        if transport == "http":
            with exchange.http() as http:
                http.post("control", line)
                until(server, lambda: desk.begun == 1)
                reset(http)
        else:
            with exchange.socket() as link:
                link.send("control", line)
                until(server, lambda: desk.begun == 1)
        stream.http.close()
        until(server, lambda: not server.server.tlcp._order._last)
        go_on()
        until(server, lambda: not server.server.tlcp.push._under_way)
        bind = params(session=stream.session, recovery_from=0, polling=True)
        assert exchange.request("bind_session", bind)[2:] == ["PROG,0", "MPNREG,d1,PUSH", "LOOP,0"]


@pytest.mark.parametrize(
    ("failure", "is_logged"),
    [
        (PushRefusal(PushReason.UNAVAILABLE, "No database"), False),
        (Refusal(Reason.CREDENTIALS, "Not you"), False),
        (RuntimeError("broken on purpose"), True),
    ],
)
def test_of_a_request_whose_client_has_gone_only_the_unexpected_is_logged(
    server: BackgroundServer,
    exchange: Exchange,
    desk: MemoryDesk,
    errors: ErrorLog,
    failure: Exception,
    is_logged: bool,
) -> None:
    with exchange.stream() as stream:
        desk.failure = failure
        go_on = hold(server, desk)
        with exchange.http() as http:
            http.post("control", f"{push('register')}&LS_session={stream.session}")
            until(server, lambda: desk.begun == 1)
            reset(http)
        until(server, lambda: not server.server.tlcp._order._last)
        go_on()
        until(server, lambda: not server.server.tlcp.push._under_way)
        bind = params(session=stream.session, recovery_from=0, polling=True)
        assert exchange.request("bind_session", bind)[2:] == ["PROG,0", "LOOP,0"]
    assert len(errors.records) == is_logged
    errors.records.clear()


def test_a_request_whose_session_ends_meanwhile_is_acknowledged_and_those_behind_it_are_not(
    server: BackgroundServer, exchange: Exchange, desk: MemoryDesk
) -> None:
    with exchange.socket() as link, exchange.socket() as other:
        link.create()
        go_on = hold(server, desk)
        session = f"&LS_session={link.session}"
        other.send("control", push("register") + session, push("reset_badge", reqId=2, deviceId="d1") + session)
        until(server, lambda: desk.begun == 1)
        link.send("control", params(reqId=3, op="destroy"))
        assert tags(link.read_until("END")) == ["END"]
        go_on()
        assert other.read_line() == "REQOK,1"
        assert other.read_line() == "REQERR,2,20,LS_session: The session has been closed"
    assert desk.begun == 1


# -- with the creation of a session ------------------------------------------------------------------------------------


def test_a_session_may_be_created_together_with_a_registration(exchange: Exchange, desk: MemoryDesk) -> None:
    creation = f"{params(adapter_set='TEST')}&LS_cid={CID}"
    register = push("register", reqId=None)
    activate = push("activate", reqId=None, deviceId="d1")
    with exchange.http() as http:
        http.post("create_session", f"{creation}&{register}\r\n{activate}")
        http.read_head()
        lines = http.read_until("MPNOK")
        assert [tags(lines)[0], *lines[-2:]] == ["CONOK", "MPNREG,d1,PUSH", "MPNOK,1,s1"]
    with exchange.socket() as link:
        link.send("create_session", creation, register)
        lines = link.read_until("MPNREG")
        assert [tags(lines)[0], lines[-1]] == ["CONOK", "MPNREG,d1,PUSH"]
        assert "REQOK" not in tags(lines)


def test_a_creation_whose_registration_is_refused_is_64_and_leaves_no_session(
    server: BackgroundServer, exchange: Exchange, desk: MemoryDesk
) -> None:
    # Those of earlier tests may end meanwhile.
    before = server.call(lambda: set(server.server.kernel.sessions))
    line = f"{params(adapter_set='TEST')}&LS_cid={CID}&{push('register', reqId=None)}"
    desk.failure = PushRefusal(PushReason.APPLICATION, "not one of ours")
    expected = ["CONERR,64,Error 43 in the control request: PN_appId: not one of ours"]
    assert exchange.request("create_session", line) == expected
    desk.failure = Refusal(Reason.CREDENTIALS, "Not you", code=-7)
    assert exchange.request("create_session", line) == ["CONERR,64,Error -7 in the control request: Not you"]
    assert server.call(lambda: set(server.server.kernel.sessions)) <= before
