"""A remote metadata adapter: what it is asked, and what clients are told of its answers, or of none."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from penstock.adapters.remote import RemoteDataAdapter, RemoteMetadataAdapter
from penstock.kernel.item import Mode
from penstock.kernel.ports import ClientFacts, DeviceFacts, PushFacts
from penstock.testing import ari_peer
from penstock.wire.ari import requests
from penstock.wire.ari.packets import ForceSessionEnd, ForceUnsubscription
from penstock.wire.ari.replies import (
    AriNames,
    Done,
    ExceptionKind,
    Failed,
    ItemData,
    ItemFacts,
    Reply,
    SessionAdmitted,
    TablesAdmitted,
    UserAdmitted,
    UserItemData,
    UserItemFacts,
)
from penstock.wire.ari.version import NEWEST, SUPPORTED, Version
from tests.adapters.remote.support import Client, RemotePeer, RemoteServer
from tests.support.background import Question
from tests.support.waiting import wait_until

ALL = ("RAW", "MERGE", "DISTINCT", "COMMAND")

Handler = Callable[[str, requests.Request], Reply | bytes | None]


class Decider(RemotePeer):
    """A metadata adapter that answers on a thread, as `answers` says for some methods and by default for others."""

    def __init__(self, port: int, version: Version = NEWEST) -> None:
        super().__init__(port, version=version)
        self.answers: dict[str, Handler] = {}
        self.asked: list[requests.Request] = []
        self.forced: list[ari_peer.ForcedReply] = []
        self.reason: str | None = None
        self.introduce()
        self.initialise(requests.InitMetadata)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(OSError, EOFError):
            while True:
                self._hear(self.read())

    def _hear(self, read: tuple[str, requests.Request] | ari_peer.Close | ari_peer.ForcedReply) -> None:
        if isinstance(read, ari_peer.Close):
            self.reason = read.reason
        elif isinstance(read, ari_peer.ForcedReply):
            self.forced.append(read)
        else:
            identifier, request = read
            answer = self.answers.get(request.method, self._usual)(identifier, request)
            self.asked.append(request)
            if isinstance(answer, bytes):
                self.send(answer)
            elif answer is not None:
                self.reply(answer)

    def _usual(self, identifier: str, request: requests.Request) -> Reply:
        method = request.method
        if isinstance(request, requests.NotifyUser | requests.NotifyCertifiedUser):
            return UserAdmitted(identifier, method, 0.0, True)
        if isinstance(request, requests.NotifySession):
            return SessionAdmitted(identifier, method, 0)
        if isinstance(request, requests.GetItems):
            return AriNames(identifier, method, tuple(request.group.split()))
        if isinstance(request, requests.GetSchema):
            return AriNames(identifier, method, tuple(request.schema.split()))
        if isinstance(request, requests.GetItemData):
            return ItemData(identifier, method, tuple([ItemFacts(0, 0.0, ALL) for _ in request.items]))
        if isinstance(request, requests.GetUserItemData):
            return UserItemData(identifier, method, tuple([UserItemFacts(0, 0.0, ALL) for _ in request.items]))
        if isinstance(request, requests.NotifyTables):
            return TablesAdmitted(identifier, method, True, True)
        return Done(identifier, method)

    def heard(self, kind: type[requests.Request]) -> list[requests.Request]:
        return [request for request in list(self.asked) if isinstance(request, kind)]

    def wait_for(self, kind: type[requests.Request]) -> requests.Request:
        wait_until(lambda: bool(self.heard(kind)), f"{kind.__name__} was never asked")
        return self.heard(kind)[0]

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        super().close()


def failing(kind: ExceptionKind, code: int | None = None, message: str | None = None) -> Handler:
    return lambda identifier, request: Failed(identifier, request.method, kind, "for the log", code, message)


def silent(identifier: str, request: requests.Request) -> None:
    return None


def garbled(identifier: str, request: requests.Request) -> bytes:
    return f"{identifier}|{request.method}|Z|?\r\n".encode()


@pytest.fixture
def server() -> Iterator[RemoteServer]:
    metadata = RemoteMetadataAdapter(port=0, timeout_millis=300, first_connection_timeout_millis=0)
    with RemoteServer(RemoteDataAdapter(port=0), metadata) as running:
        yield running


def connect(server: RemoteServer, version: Version = NEWEST) -> Decider:
    adapter = server.decider
    assert isinstance(adapter, RemoteMetadataAdapter)
    made = Decider(adapter.ports[0], version)
    wait_until(lambda: adapter.connected, "the adapter is not ready")
    return made


def lose(server: RemoteServer, decider: Decider) -> None:
    decider.close()
    adapter = server.decider
    assert isinstance(adapter, RemoteMetadataAdapter)
    wait_until(lambda: not adapter.connected, "the loss is not noticed")


@pytest.fixture
def decider(server: RemoteServer) -> Iterator[Decider]:
    with connect(server) as connected:
        yield connected  # type: ignore[misc]


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_everything_about_a_session_is_asked_in_its_order_in_every_version(
    server: RemoteServer, version: Version
) -> None:
    with connect(server, version) as decider:
        assert isinstance(decider, Decider)
        with server.client(user="me", password="p w") as client:
            client.subscribe(1, "a b", "x y")
            client.read("SUBOK")
            client.unsubscribe(1)
            client.read("UNSUB")
            client.say("hello, world")
            assert client.read("MSGDONE").startswith("MSGDONE,talk,1")
            client.control(op="destroy")
            client.read("END")
        decider.wait_for(requests.NotifySessionEnd)
        methods = [request.method for request in decider.asked]
        assert methods[:4] == ["NUS", "NNS", "GIS", "GSC"]
        assert sorted(methods[4:6]) == ["GIT", "GUI"]
        assert methods[6] == "NNT"
        assert sorted(methods[7:9]) == ["NTC", "NUM"]
        assert methods[9:] == ["NSC"]
        user = decider.asked[0]
        assert isinstance(user, requests.NotifyUser)
        assert (user.user, user.password) == ("me", "p w")
        opened = decider.asked[1]
        assert isinstance(opened, requests.NotifySession)
        assert dict(opened.context)["REMOTE_IP"] == "127.0.0.1"
        assert "USER_AGENT" in dict(opened.context)
        begun = decider.asked[6]
        assert isinstance(begun, requests.NotifyTables)
        rich = version.has_rich_tables
        assert begun.tables[0] == requests.TableInfo(
            1, "MERGE", "a b", "x y", 1, 2, None, "FEED" if rich else None, ("a", "b") if rich else ()
        )
        ended = decider.wait_for(requests.NotifyTablesEnd)
        assert isinstance(ended, requests.NotifyTablesEnd)
        assert len(ended.tables[0].statistics) == (2 if rich else 0)


@pytest.mark.parametrize(
    ("handler", "line"),
    [
        (failing(ExceptionKind.ACCESS), "CONERR,1,User/password check failed"),
        (failing(ExceptionKind.CREDITS, -7, "pay first"), "CONERR,-7,pay first"),
        (failing(ExceptionKind.CREDITS, 7, "pay first"), "CONERR,0,pay first"),
        (failing(ExceptionKind.RESOURCE_UNAVAILABLE), "CONERR,6"),
        (failing(ExceptionKind.GENERIC), "CONERR,66"),
        (failing(ExceptionKind.SCHEMA), "CONERR,66"),
        (silent, "CONERR,6"),
        (garbled, "CONERR,66"),
    ],
)
def test_a_user_who_is_not_admitted_is_told_the_code_for_it(
    server: RemoteServer, decider: Decider, handler: Handler, line: str
) -> None:
    decider.answers["NUS"] = handler
    with server.client(user="me") as client:
        assert client.head[-1].startswith(line)
        assert "for the log" not in client.head[-1]
    assert decider.heard(requests.NotifySession) == []


@pytest.mark.parametrize(
    ("handler", "line"),
    [
        (failing(ExceptionKind.CREDITS, -3, "one is enough"), "CONERR,-3,one is enough"),
        (failing(ExceptionKind.NOTIFICATION), "CONERR,66"),
        (silent, "CONERR,6"),
    ],
)
def test_a_session_that_is_not_admitted_is_not_told_of_when_it_ends(
    server: RemoteServer, decider: Decider, handler: Handler, line: str
) -> None:
    decider.answers["NNS"] = handler
    with server.client() as client:
        assert client.head[-1].startswith(line)
    del decider.answers["NNS"]
    with server.client() as client:
        client.control(op="destroy")
        client.read("END")
    decider.wait_for(requests.NotifySessionEnd)
    assert len(decider.heard(requests.NotifySessionEnd)) == 1


def test_a_conflicting_session_is_ended_and_the_new_one_asked_for_once_more(
    server: RemoteServer, decider: Decider
) -> None:
    with server.client(user="me") as first:

        def conflict_once(identifier: str, request: requests.Request) -> Reply:
            decider.answers.pop("NNS")
            return Failed(identifier, "NNS", ExceptionKind.CONFLICTING_SESSION, "two", -3, "no", first.socket.session)

        decider.answers["NNS"] = conflict_once
        with server.client(user="me") as second:
            assert first.read("END").startswith("END,35")
            assert second.head[0].startswith("CONOK")


def test_a_session_that_ends_while_the_adapter_is_being_told_of_it_is_told_to_have_ended(
    server: RemoteServer, decider: Decider
) -> None:
    def end_it(identifier: str, request: requests.Request) -> Reply:
        assert isinstance(request, requests.NotifySession)
        assert server.decider.server.end_session(request.session)
        return SessionAdmitted(identifier, "NNS", 0)

    decider.answers["NNS"] = end_it
    with server.client() as client:
        assert client.head[-1].startswith("CONERR")
    ended = decider.wait_for(requests.NotifySessionEnd)
    assert isinstance(ended, requests.NotifySessionEnd)
    opened = decider.asked[1]
    assert isinstance(opened, requests.NotifySession)
    assert ended.session == opened.session


def test_a_subscription_that_was_told_and_could_not_begin_is_told_to_have_ended(
    server: RemoteServer, decider: Decider
) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x", "MERGE")
        client.read("SUBOK")
        # The item is bound to MERGE: the kernel refuses it when the adapter has already agreed.
        for _ in range(2):
            client.subscribe(2, "a", "x", "DISTINCT")
            assert client.read("REQERR").split(",")[2] == "24"
        client.control(op="destroy")
        client.read("END")
    decider.wait_for(requests.NotifySessionEnd)
    methods = [request.method for request in decider.asked if request.method in ("NNT", "NTC", "NSC")]
    assert methods.count("NNT") == methods.count("NTC") == 3
    assert methods[-1] == "NSC"


def test_a_session_that_conflicts_for_ever_is_refused(server: RemoteServer, decider: Decider) -> None:
    decider.answers["NNS"] = lambda identifier, request: Failed(
        identifier, "NNS", ExceptionKind.CONFLICTING_SESSION, "two", -3, "no", "nobody"
    )
    with server.client() as client:
        assert client.head[-1].startswith("CONERR,-3,no")
    assert len(decider.heard(requests.NotifySession)) == 2


def test_a_session_ends_when_the_time_is_over_that_the_adapter_gives_it(server: RemoteServer, decider: Decider) -> None:
    decider.answers["NNS"] = lambda identifier, request: SessionAdmitted(identifier, "NNS", 1)
    with server.client() as client:
        assert client.read("END").startswith("END,")


def test_bandwidth_and_limits_are_those_of_the_adapter(server: RemoteServer, decider: Decider) -> None:
    decider.answers["NUS"] = lambda identifier, request: UserAdmitted(identifier, "NUS", 12.5, False)
    decider.answers["GUI"] = lambda identifier, request: UserItemData(identifier, "GUI", (UserItemFacts(3, 2.0, ALL),))
    with server.client() as client:
        assert client.head[-1].startswith("CONS,12.5")
        client.subscribe(1, "a", "x")
        assert client.read("CONF") == "CONF,1,2.0,filtered"
    # It did not want to hear of subscriptions.
    assert decider.heard(requests.NotifyTables) == []


@pytest.mark.parametrize(
    ("method", "handler", "code"),
    [
        ("GIS", failing(ExceptionKind.ITEMS), 21),
        ("GIS", failing(ExceptionKind.GENERIC), 66),
        ("GIS", silent, 66),
        ("GSC", failing(ExceptionKind.ITEMS), 22),
        ("GSC", failing(ExceptionKind.SCHEMA), 23),
        ("GSC", lambda identifier, request: AriNames(identifier, "GSC", ()), 23),
        ("GIT", failing(ExceptionKind.GENERIC), 66),
        ("GIT", lambda identifier, request: ItemData(identifier, "GIT", ()), 66),
        ("GIT", lambda identifier, request: ItemData(identifier, "GIT", (ItemFacts(0, 0.0, ("RAW",)),)), 24),
        ("GUI", lambda identifier, request: UserItemData(identifier, "GUI", (UserItemFacts(0, 0.0, ()),)), 24),
        ("GUI", garbled, 66),
        ("NNT", failing(ExceptionKind.CREDITS, -9, "no more"), -9),
        ("NNT", failing(ExceptionKind.NOTIFICATION), 66),
    ],
)
def test_a_subscription_that_is_not_granted_is_refused_with_the_code_for_it(
    server: RemoteServer, decider: Decider, method: str, handler: Handler, code: int
) -> None:
    decider.answers[method] = handler
    with server.client() as client:
        client.subscribe(1, "a", "x")
        assert client.read("REQERR", "SUBOK").startswith(f"REQERR,1,{code},")


def test_a_group_without_items_is_granted_and_nothing_is_asked_about_its_items(
    server: RemoteServer, decider: Decider
) -> None:
    decider.answers["GIS"] = lambda identifier, request: AriNames(identifier, "GIS", ())
    with server.client() as client:
        client.subscribe(1, "nothing", "x y")
        assert client.read("REQERR", "SUBOK") == "SUBOK,1,0,2"
    assert not {"GIT", "GUI"} & {request.method for request in decider.asked}


def test_a_user_who_has_shown_a_certificate_is_asked_for_by_its_principal(
    server: RemoteServer, decider: Decider
) -> None:
    adapter = server.decider
    assert isinstance(adapter, RemoteMetadataAdapter)
    client = ClientFacts("127.0.0.1", True, {}, 4711, "CN=device-7")
    asked = asyncio.run_coroutine_threadsafe(adapter.authenticate("me", "pw", client), server._loop)
    assert asked.result(15).max_bandwidth is None
    (request,) = decider.heard(requests.NotifyCertifiedUser)
    assert isinstance(request, requests.NotifyCertifiedUser)
    assert (request.user, request.principal) == ("me", "CN=device-7")


def test_a_selector_cannot_be_remote(server: RemoteServer, decider: Decider) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x", selector="odd")
        assert client.read("REQERR").startswith("REQERR,1,25,")


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        (failing(ExceptionKind.CREDITS, -4, "rude"), "-4,rude"),
        (failing(ExceptionKind.NOTIFICATION), "34,"),
        (failing(ExceptionKind.GENERIC), "35,"),
        (garbled, "35,"),
        (silent, "35,"),
    ],
)
def test_a_message_that_fails_is_answered_with_the_code_for_it(
    server: RemoteServer, decider: Decider, handler: Handler, code: str
) -> None:
    decider.answers["NUM"] = handler
    with server.client() as client:
        client.say("hello")
        assert client.read("MSGFAIL", "MSGDONE").startswith(f"MSGFAIL,talk,1,{code}")


# -- what the adapter asks for -----------------------------------------------------------------------------------------


def test_the_adapter_can_end_a_session_and_is_told_whether_there_was_one(
    server: RemoteServer, decider: Decider
) -> None:
    with server.client() as client, server.client() as other:
        decider.send(ari_peer.force(ForceSessionEnd("100", client.socket.session, -5, "enough"), NEWEST))
        assert client.read("END") == "END,-5,enough"
        decider.send(ari_peer.force(ForceSessionEnd("101", other.socket.session, None, None), NEWEST))
        assert other.read("END").startswith("END,32")
        decider.send(ari_peer.force(ForceSessionEnd("102", "nobody", None, None), NEWEST))
        wait_until(lambda: len(decider.forced) == 3, "not all are answered")
    assert [(reply.request, reply.done) for reply in decider.forced] == [("100", True), ("101", True), ("102", False)]


def test_the_adapter_can_end_a_subscription_if_it_has_reserved_the_right(
    server: RemoteServer, decider: Decider
) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        client.read("SUBOK")
        decider.answers["NNT"] = lambda identifier, request: TablesAdmitted(identifier, "NNT", False, False)
        client.subscribe(2, "a", "x")
        client.read("SUBOK")
        for number in (1, 2, 3):
            force = ForceUnsubscription(f"10{number}", client.socket.session, number)
            decider.send(ari_peer.force(force, NEWEST))
        assert client.read("UNSUB") == "UNSUB,1"
        wait_until(lambda: len(decider.forced) == 3, "not all are answered")
    assert [(reply.done, reply.error is None) for reply in decider.forced] == [
        (True, True),
        (False, False),
        (False, True),
    ]


# -- push notifications ------------------------------------------------------------------------------------------------

DEVICE = DeviceFacts("Apple", "com.example", "hush|é")
PUSH = PushFacts("FEED", Mode.DISTINCT, "a b", "s", ("a", "b"), ("x", "y"), '{"x":"$[1]"}', '$[1].equals("|")', 3, 1.5)
PERMITS: dict[str, Question] = {
    "MDA": lambda authority, session: authority.register_device(session, DEVICE),
    "MDC": lambda authority, session: authority.change_device_token(session, DEVICE, "new"),
    "MSA": lambda authority, session: authority.activate_push(session, DEVICE, PUSH),
}


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_devices_and_push_subscriptions_are_asked_for_in_every_version(server: RemoteServer, version: Version) -> None:
    with connect(server, version) as decider, server.client(user="me") as client:
        assert isinstance(decider, Decider)
        assert [server.ask_authority(client.socket.session, question) for question in PERMITS.values()] == [None] * 3
        me = "me", client.socket.session
        device = requests.DeviceInfo("Apple", "com.example", "hush|é")
        table = requests.TableInfo(0, "DISTINCT", "a b", "s", 1, 2)
        if version.has_rich_tables:
            table = requests.TableInfo(0, "DISTINCT", "a b", "s", 1, 2, data_adapter="FEED", items=("a", "b"))
        assert [request for request in decider.asked if request.method in PERMITS] == [
            requests.NotifyDevice(*me, device),
            requests.NotifyTokenChange(*me, device, "new"),
            requests.NotifyActivation(*me, table, device, PUSH.trigger, PUSH.format),
        ]


def test_of_a_browser_the_adapter_is_told_no_platform_and_no_trigger_where_there_is_none(
    server: RemoteServer, decider: Decider
) -> None:
    device = replace(DEVICE, platform="Web")
    with server.client() as client:
        server.ask_authority(
            client.socket.session, lambda authority, session: authority.register_device(session, device)
        )
        push = replace(PUSH, trigger=None)
        server.ask_authority(
            client.socket.session, lambda authority, session: authority.activate_push(session, device, push)
        )
    registered, activated = decider.wait_for(requests.NotifyDevice), decider.wait_for(requests.NotifyActivation)
    assert isinstance(registered, requests.NotifyDevice)
    assert isinstance(activated, requests.NotifyActivation)
    assert registered.device == activated.device == requests.DeviceInfo(None, DEVICE.application, DEVICE.token)
    assert activated.trigger is None


@pytest.mark.parametrize("method", PERMITS)
@pytest.mark.parametrize(
    ("handler", "code", "text"),
    [
        (failing(ExceptionKind.CREDITS, -9, "not yours"), -9, "not yours"),
        (failing(ExceptionKind.CREDITS, 9, "not yours"), 0, "not yours"),
        (failing(ExceptionKind.NOTIFICATION), 66, "The metadata adapter failed on this request"),
        (failing(ExceptionKind.GENERIC), 66, "The metadata adapter failed on this request"),
        (silent, 66, "The metadata adapter failed on this request: "),
        (garbled, 66, "The metadata adapter failed on this request: "),
    ],
    ids=["credits", "positive", "notification", "generic", "silent", "garbled"],
)
def test_what_is_not_allowed_with_push_is_refused_with_the_code_for_it(
    server: RemoteServer, decider: Decider, method: str, handler: Handler, code: int, text: str
) -> None:
    decider.answers[method] = handler
    with server.client() as client:
        answer = server.ask_authority(client.socket.session, PERMITS[method])
    assert answer is not None
    assert answer[0] == code
    assert answer[1].startswith(text)


@pytest.mark.parametrize("method", PERMITS)
def test_nothing_is_allowed_with_push_while_the_adapter_is_away(server: RemoteServer, method: str) -> None:
    decider = connect(server)
    with server.client() as client:
        lose(server, decider)
        answer = server.ask_authority(client.socket.session, PERMITS[method])
        assert answer is not None
        assert answer[0] == 66
        with connect(server):
            assert server.ask_authority(client.socket.session, PERMITS[method]) is None


def test_tokens_of_devices_are_not_logged(
    server: RemoteServer, decider: Decider, caplog: pytest.LogCaptureFixture
) -> None:
    decider.answers["MDC"] = failing(ExceptionKind.GENERIC)
    with caplog.at_level(logging.DEBUG), server.client() as client:
        for question in PERMITS.values():
            server.ask_authority(client.socket.session, question)
    logged = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "refused a request" in logged
    assert "hush" not in logged


# -- while it is away --------------------------------------------------------------------------------------------------


def subscribed(server: RemoteServer) -> Client:
    client = server.client(user="me")
    client.subscribe(1, "a", "x")
    client.read("SUBOK")
    return client


def test_sessions_go_on_without_the_adapter_and_what_is_new_is_refused(server: RemoteServer) -> None:
    decider = connect(server)
    with subscribed(server) as client:
        lose(server, decider)
        client.subscribe(2, "b", "x")
        assert client.read("REQERR").startswith("REQERR,2,66")
        client.say("hello")
        assert client.read("MSGFAIL").startswith("MSGFAIL,talk,1,35")
        client.unsubscribe(1)
        assert client.read("UNSUB") == "UNSUB,1"
        with server.client() as refused:
            assert refused.head[-1].startswith("CONERR,6")
        with connect(server):
            client.subscribe(3, "b", "x")
            assert client.read("SUBOK", "REQERR").startswith("SUBOK,3")


def test_ends_that_the_adapter_has_missed_are_told_first_when_it_is_back(server: RemoteServer) -> None:
    decider = connect(server)
    with subscribed(server) as client:
        lose(server, decider)
        client.control(op="destroy")
        client.read("END")
    wait_until(lambda: len(server.decider._ends) == 2, "they are not kept")  # type: ignore[attr-defined]
    with connect(server) as back, server.client() as later:
        assert isinstance(back, Decider)
        assert later.head[0].startswith("CONOK")
        assert [request.method for request in back.asked][:3] == ["NTC", "NSC", "NUS"]


def test_requests_under_way_are_answered_when_the_adapter_is_lost(server: RemoteServer) -> None:
    decider = connect(server)
    decider.answers["GIS"] = silent
    with server.client() as client:
        client.subscribe(1, "a", "x")
        decider.wait_for(requests.GetItems)
        lose(server, decider)
        assert client.read("REQERR").startswith("REQERR,1,66")


def test_a_failure_that_the_adapter_reports_is_the_end_of_its_connection(
    server: RemoteServer, decider: Decider
) -> None:
    decider.send(ari_peer.failure("2", "no database", NEWEST))
    wait_until(lambda: decider.reason is not None, "it is not closed")
    assert decider.reason == "the adapter has reported a failure"


def test_a_slow_answer_for_one_session_holds_up_no_other(server: RemoteServer, decider: Decider) -> None:
    decider.answers["GIS"] = silent
    with server.client() as waiting, server.client() as other:
        waiting.subscribe(1, "a", "x")
        decider.wait_for(requests.GetItems)
        other.say("quick")
        assert other.read("MSGDONE").startswith("MSGDONE,talk,1")


def test_a_remote_adapter_decides_about_frequencies_again_and_while_it_is_away_what_was_granted_holds(
    server: RemoteServer,
) -> None:
    decider = connect(server)
    with server.client() as client:
        client.subscribe(1, "a b", "x")
        assert client.read("CONF") == "CONF,1,unlimited,filtered"
        decider.answers["GUI"] = lambda identifier, request: UserItemData(
            identifier, request.method, (UserItemFacts(0, 2.0, ALL), UserItemFacts(0, 1.0, ALL))
        )
        client.control(op="reconf", subId=1, requested_max_frequency="unlimited")
        assert client.read("CONF") == "CONF,1,2.0,filtered"
        # About other items than it was asked for.
        decider.answers["GUI"] = lambda identifier, request: UserItemData(identifier, request.method, ())
        client.control(op="reconf", subId=1, requested_max_frequency=1)
        assert client.read("REQERR").split(",")[2] == "66"
        lose(server, decider)
        client.control(op="reconf", subId=1, requested_max_frequency=1.5)
        assert client.read("CONF") == "CONF,1,1.5,filtered"
        client.control(op="reconf", subId=1, requested_max_frequency="unlimited")
        assert client.read("CONF") == "CONF,1,2.0,filtered"
