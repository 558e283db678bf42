"""Metadata adapters over real sockets: what clients are told of their decisions, failures and delays."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Sequence
from queue import Queue
from typing import Any

import pytest

from penstock.adapters import AdapterSet, ClientFacts, DataAdapter, MetadataAdapter, Reason, Refusal
from penstock.adapters.authority import SetAuthority
from penstock.kernel.item import Mode
from penstock.kernel.messages import Message
from penstock.kernel.ports import Admission, SessionFacts, Statistics, SubscriptionFacts
from penstock.testing import Harness
from tests.adapters.stage import SetServer
from tests.support.raw import CID, Stream, params

TIMEOUT_MILLIS = 300


class Feed(DataAdapter):
    """Keeps what it is asked for; `broken` and `stuck` are what `subscribe` is then."""

    def __init__(self) -> None:
        self.asked: Queue[tuple[str, str]] = Queue()
        self.release = threading.Event()

    def subscribe(self, item: str) -> None:
        self.asked.put(("subscribe", item))
        if item == "broken":
            raise RuntimeError("subscribe failed on purpose")
        if item == "stuck":
            self.release.wait(20)
        self.update(item, {"x": "first"}, snapshot=True)
        self.end_of_snapshot(item)

    def unsubscribe(self, item: str) -> None:
        self.asked.put(("unsubscribe", item))


class Judge(MetadataAdapter):
    """Plain methods, each of which waits, fails or refuses if a name says so."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.heard: Queue[tuple[object, ...]] = Queue()

    def act(self, name: str | None) -> None:
        if name == "hangs":
            self.release.wait(20)
        if name == "fails":
            raise RuntimeError("failed on purpose")
        if name == "refuses":
            raise Refusal(Reason.CREDENTIALS, "Not you")
        if name == "refuses with code":
            raise Refusal(Reason.CREDENTIALS, "Not you", code=-5)

    def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission | None:
        self.act(user)
        return None

    def new_session(self, session: SessionFacts) -> float | None:
        self.heard.put(("new session", session.user))
        self.act((session.user or "").removeprefix("new "))
        return None

    def session_closed(self, session: SessionFacts) -> None:
        self.heard.put(("session closed", session.user))

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:
        self.act(group)
        return group.split()

    def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        self.heard.put(("subscribed", subscription))
        self.act(subscription.schema)

    def unsubscribed(
        self, session: SessionFacts, subscription: SubscriptionFacts, statistics: Sequence[Statistics]
    ) -> None:
        self.heard.put(("unsubscribed", subscription.number, list(statistics)))

    def message(self, session: SessionFacts, text: str) -> str | None:
        self.act(text)
        if text == "who":
            return session.user
        return None


class AsyncJudge(Judge):
    """The same with async methods."""

    async def pause(self, name: str | None) -> None:
        if name == "hangs":
            await asyncio.Event().wait()
        self.act(name)

    async def authenticate(  # type: ignore[override]
        self, user: str | None, password: str | None, client: ClientFacts
    ) -> Admission | None:
        await self.pause(user)
        return None

    async def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:  # type: ignore[override]
        await self.pause(group)
        return group.split()

    async def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:  # type: ignore[override]
        self.heard.put(("subscribed", subscription))
        await self.pause(subscription.schema)

    async def message(self, session: SessionFacts, text: str) -> str | None:  # type: ignore[override]
        await self.pause(text)
        return session.user if text == "who" else None


class QuickJudge(MetadataAdapter):
    """Nothing has to be waited for, except where a plain method hands back a coroutine."""

    quick = True

    def __init__(self) -> None:
        self.calls: list[str] = []

    def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Any:
        name = user or ""
        if name.startswith("later "):
            return self._later(name.removeprefix("later "))
        return self._decide(name)

    async def _later(self, name: str) -> Any:
        await asyncio.sleep(0)
        return self._decide(name)

    def _decide(self, name: str) -> Any:
        if name == "fails":
            raise RuntimeError("failed on purpose")
        if name == "leaves":
            raise SystemExit(1)
        if name == "refuses":
            raise Refusal(Reason.CREDENTIALS, "Not you")
        return {"wrong": "welcome", "known": Admission(user="kim", max_bandwidth=5)}.get(name)

    def max_bandwidth(self, user: str | None) -> float | None:
        self.calls.append("max_bandwidth")
        return 7


class Few(MetadataAdapter):
    sessions_per_user = 2


class Place:
    """A server with these judges, and what they have heard."""

    def __init__(self) -> None:
        self.judges = {"SET": Judge(), "ASYNC": AsyncJudge()}
        self.feeds = {name: Feed() for name in self.judges}
        self.feed = self.feeds["SET"]
        sets = [
            AdapterSet(name, judge, {"ADAPTER": self.feeds[name]}, TIMEOUT_MILLIS)
            for name, judge in self.judges.items()
        ]
        self.few, self.quick = Few(), QuickJudge()
        others = {"FEW": self.few, "QUICK": self.quick}
        sets += [AdapterSet(name, judge, {"ADAPTER": DataAdapter()}) for name, judge in others.items()]
        self.server = SetServer(sets)

    def hear(self, adapter_set: str = "SET") -> tuple[object, ...]:
        return self.judges[adapter_set].heard.get(timeout=15)


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    try:
        with made.server:
            yield made
            made.feed.release.set()
            for judge in made.judges.values():
                judge.release.set()
    finally:
        made.feed.release.set()


each_set = pytest.mark.parametrize("adapter_set", ["SET", "ASYNC"])


def send(place: Place, stream: Stream, text: str, number: int) -> None:
    line = params(session=stream.session, reqId=number, msg_prog=number, message=text)
    assert place.server.exchange.request("msg", line) == [f"REQOK,{number}"]


# -- codes ------------------------------------------------------------------------------------------------------------


@each_set
@pytest.mark.parametrize(
    ("user", "answer"),
    [
        ("hangs", "CONERR,6,The metadata adapter has not answered in time"),
        ("fails", "CONERR,66,The metadata adapter failed on this request"),
        ("refuses", "CONERR,1,Not you"),
        ("refuses with code", "CONERR,-5,Not you"),
    ],
)
def test_a_session_is_refused_with_the_documented_code(place: Place, adapter_set: str, user: str, answer: str) -> None:
    assert place.server.ask(adapter_set, user=user)[-1] == answer


@pytest.mark.parametrize("when", ["", "later "])
@pytest.mark.parametrize(
    ("user", "answer"),
    [
        ("fails", "CONERR,66,The metadata adapter failed on this request"),
        ("leaves", "CONERR,66,The metadata adapter failed on this request"),
        ("wrong", "CONERR,66,The metadata adapter failed on this request"),
        ("refuses", "CONERR,1,Not you"),
        ("known", "CONS,5"),
        ("left to max_bandwidth", "CONS,7"),
    ],
)
def test_an_adapter_that_need_not_be_waited_for_decides_the_same(
    place: Place, when: str, user: str, answer: str
) -> None:
    assert place.server.ask("QUICK", user=when + user)[-1] == answer
    assert place.quick.calls == (["max_bandwidth"] if user.startswith("left") else [])


@pytest.mark.parametrize(
    ("user", "answer"),
    [
        ("new fails", "CONERR,66,The metadata adapter failed on this request"),
        ("new hangs", "CONERR,6,The metadata adapter has not answered in time"),
        ("new refuses", "CONERR,1,Not you"),
    ],
)
def test_new_session_may_still_refuse(place: Place, user: str, answer: str) -> None:
    assert place.server.ask(user=user)[-1] == answer
    assert [place.hear(), place.hear()] == [("new session", user), ("session closed", user)]


@each_set
@pytest.mark.parametrize(
    ("group", "answer"),
    [
        ("hangs", "REQERR,1,66,The metadata adapter has not answered in time"),
        ("fails", "REQERR,1,66,The metadata adapter failed on this request"),
        ("refuses with code", "REQERR,1,-5,Not you"),
    ],
)
@pytest.mark.parametrize("where", ["items", "subscribed"])
def test_a_subscription_is_refused_with_the_documented_code(
    place: Place, adapter_set: str, where: str, group: str, answer: str
) -> None:
    with place.server.open(adapter_set) as stream:
        names = (group, "x") if where == "items" else ("a", group)
        assert place.server.subscribe(stream, *names) == [answer]
        assert place.server.subscribe(stream, "b", "x", number=2) == ["REQOK,2"]


@each_set
def test_messages_end_with_the_documented_codes(place: Place, adapter_set: str) -> None:
    with place.server.open(adapter_set, user="kim") as stream:
        for number, text in enumerate(("who", "fails", "refuses", "refuses with code", "hangs", "nothing"), start=1):
            send(place, stream, text, number)
            line = stream.read_until("MSGDONE", "MSGFAIL")[-1]
            assert (
                line
                == [
                    "MSGDONE,*,1",
                    "MSGFAIL,*,2,35,The metadata adapter failed on this message",
                    "MSGFAIL,*,3,34,Not you",
                    "MSGFAIL,*,4,-5,Not you",
                    "MSGFAIL,*,5,35,The metadata adapter has not answered in time",
                    "MSGDONE,*,6",
                ][number - 1]
            )


# -- nobody waits for others ------------------------------------------------------------------------------------------


def test_a_call_that_hangs_holds_up_nobody_else() -> None:
    judge, feed = Judge(), Feed()
    slow = AdapterSet("SET", judge, {"ADAPTER": feed}, timeout_millis=20_000)
    with SetServer([slow]) as server, server.exchange.http() as waiting:
        waiting.post("create_session", f"{params(adapter_set='SET', user='hangs')}&LS_cid={CID}")
        with server.open(user="kim") as stream:
            assert server.subscribe(stream, "a", "x") == ["REQOK,1"]
            assert stream.read_until("U")[-1] == "U,1,1,first"
        judge.release.set()
        waiting.read_head()
        assert waiting.read_until("CONS")[0].startswith("CONOK,")


def test_a_data_adapter_that_hangs_on_one_item_serves_the_others(place: Place) -> None:
    with place.server.open() as stream:
        assert place.server.subscribe(stream, "stuck", "x") == ["REQOK,1"]
        assert place.server.subscribe(stream, "a", "x", number=2) == ["REQOK,2"]
        assert stream.read_until("U")[-1] == "U,2,1,first"
        place.feed.release.set()
        assert stream.read_until("U")[-1] == "U,1,1,first"


def test_calls_about_one_item_keep_their_order(place: Place) -> None:
    with place.server.open() as stream:
        place.server.subscribe(stream, "stuck", "x")
        assert place.feed.asked.get(timeout=15) == ("subscribe", "stuck")
        for number in (1, 2):
            place.server.exchange.control(stream.session, reqId=10 + number, op="delete", subId=number)
            place.server.subscribe(stream, "stuck", "x", number=number + 1)
        place.feed.release.set()
        asked = [place.feed.asked.get(timeout=15)[0] for _ in range(4)]
        assert asked == ["unsubscribe", "subscribe", "unsubscribe", "subscribe"]


# -- failures are logged ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["authenticate", "about a subscription", "message"])
def test_a_failure_is_logged_with_its_call_and_its_traceback(
    place: Place, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        if where == "authenticate":
            place.server.ask(user="fails")
        else:
            with place.server.open() as stream:
                if where == "message":
                    send(place, stream, "fails", 1)
                    stream.read_until("MSGFAIL")
                else:
                    place.server.subscribe(stream, "fails", "x")
    (record,) = [record for record in caplog.records if record.msg == "metadata adapter failed"]
    assert record.__dict__["fields"] == {"adapter_set": "SET", "call": where}
    assert record.exc_info is not None
    assert "failed on purpose" in str(record.exc_info[1])


def test_a_time_out_is_logged_with_its_call(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        place.server.ask(user="hangs")
    (record,) = [record for record in caplog.records if record.msg == "metadata adapter timed out"]
    assert record.__dict__["fields"] == {"adapter_set": "SET", "call": "authenticate"}


def test_a_data_adapter_that_fails_is_logged_with_the_item(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), place.server.open() as stream:
        place.server.subscribe(stream, "broken", "x")
        place.server.subscribe(stream, "a", "x", number=2)
        stream.read_until("U")
    (record,) = [record for record in caplog.records if record.msg == "data adapter failed"]
    expected = {"adapter_set": "SET", "adapter": "ADAPTER", "call": "subscribe", "item": "broken"}
    assert record.__dict__["fields"] == expected
    assert record.exc_info is not None


# -- notifications ----------------------------------------------------------------------------------------------------


@each_set
def test_an_adapter_hears_of_sessions_and_subscriptions_in_order(place: Place, adapter_set: str) -> None:
    with place.server.open(adapter_set, user="kim") as stream:
        place.server.subscribe(stream, "a b", "x", number=1, requested_max_frequency=1)
        place.server.subscribe(stream, "c", "x", "DISTINCT", number=2)
        stream.read_until("EOS")
        # Once per item at once, and no more within the second.
        for number in range(4):
            place.server.call(place.feeds[adapter_set].update, "a", {"x": str(number)})
        place.server.exchange.control(stream.session, reqId=3, op="delete", subId=1)
        stream.read_until("UNSUB")
        place.server.exchange.control(stream.session, reqId=4, op="destroy")
        stream.read_until("END")
    heard = [place.hear(adapter_set) for _ in range(6)]
    assert heard[0] == ("new session", "kim")
    one = SubscriptionFacts(1, "ADAPTER", Mode.MERGE, "a b", "x", None, ("a", "b"))
    assert heard[1] == ("subscribed", one)
    assert heard[2] == ("subscribed", SubscriptionFacts(2, "ADAPTER", Mode.DISTINCT, "c", "x", None, ("c",)))
    assert heard[3][:2] == ("unsubscribed", 1)
    statistics = heard[3][2]
    assert isinstance(statistics, list)
    assert [(entry.sent, entry.lost) for entry in statistics] == [(1, 0), (1, 0)]
    assert statistics[0].filtered >= 3
    assert heard[4][:2] == ("unsubscribed", 2)
    assert heard[5] == ("session closed", "kim")


def test_an_adapter_hears_of_the_end_of_a_subscription_that_the_kernel_refuses_after_it_was_granted(
    place: Place,
) -> None:
    with place.server.open("SET", user="kim") as stream:
        place.server.subscribe(stream, "a", "x", number=1)
        (line,) = place.server.subscribe(stream, "a", "x", "DISTINCT", number=2)
        assert line == "REQERR,2,24,Invalid mode for these items"
        heard = [place.hear() for _ in range(4)]
        assert [entry[0] for entry in heard] == ["new session", "subscribed", "subscribed", "unsubscribed"]
        assert heard[3][2] == []


def test_an_adapter_is_not_asked_about_a_subscription_whose_number_is_in_use(place: Place) -> None:
    with place.server.open("SET", user="kim") as stream:
        place.server.subscribe(stream, "a", "x", number=1)
        (line,) = place.server.subscribe(stream, "b", "x", number=1)
        assert line.startswith("REQERR,1,65,LS_subId: Subscription number 1 is in use")
        place.server.exchange.control(stream.session, reqId=2, op="delete", subId=1)
        heard = [place.hear() for _ in range(3)]
        assert [entry[0] for entry in heard] == ["new session", "subscribed", "unsubscribed"]


# -- sessions of one user ---------------------------------------------------------------------------------------------


def test_one_session_too_many_ends_the_oldest_with_cause_35(place: Place) -> None:
    server = place.server
    with server.open("FEW", user="kim") as first, server.open("FEW", user="kim"), server.open("FEW", user="lee"):
        with server.open("FEW"), server.open("FEW"), server.open("FEW") as third:
            assert third.head[0].startswith("CONOK"), "who has no name is not counted"
        with server.open("FEW", user="kim") as third:
            assert third.head[0].startswith("CONOK")
            assert first.read_until("END")[-1].startswith("END,35,")
    with server.open("FEW", user="lee") as other:
        assert other.head[0].startswith("CONOK")


# -- the adapter's hold on sessions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("from_loop", [False, True])
def test_a_session_can_be_ended_from_any_thread(place: Place, from_loop: bool) -> None:
    handle = place.few.server
    with place.server.open("FEW") as stream:
        if from_loop:
            assert place.server.call(handle.end_session, stream.session, "Enough", -9)
        else:
            assert handle.end_session(stream.session, "Enough", -9)
        assert stream.read_until("END")[-1] == "END,-9,Enough"
        assert not handle.end_session(stream.session)


def test_without_a_code_the_cause_is_32(place: Place) -> None:
    with place.server.open("FEW") as stream:
        assert place.few.server.end_session(stream.session)
        assert stream.read_until("END")[-1] == "END,32,The session was closed by the server"


def test_a_subscription_can_be_ended_from_any_thread(place: Place) -> None:
    handle = place.judges["SET"].server
    with place.server.open() as stream:
        place.server.subscribe(stream, "a", "x")
        stream.read_until("U")
        assert handle.unsubscribe(stream.session, 1)
        assert stream.read_until("UNSUB")[-1] == "UNSUB,1"
        assert not handle.unsubscribe(stream.session, 1)


def test_an_adapter_has_no_hold_on_sessions_of_other_sets(place: Place) -> None:
    with place.server.open("FEW") as stream:
        handle = place.judges["SET"].server
        assert not handle.end_session(stream.session)
        assert not handle.unsubscribe(stream.session, 1)
        assert not handle.end_session("nonsense")
        assert place.few.server.end_session(stream.session)


def test_a_message_of_a_session_that_ends_before_it_is_processed_has_an_outcome() -> None:
    async def scenario() -> tuple[int | None, str]:
        authority = SetAuthority(AdapterSet("SET", Judge(), {}))
        session, _ = Harness().open()
        outcome: asyncio.Future[tuple[int | None, str]] = asyncio.get_running_loop().create_future()
        message = Message("late", None, None, False, lambda code, text: outcome.set_result((code, text)))
        session.close(31, "gone")
        authority.deliver(session, message)
        return await asyncio.wait_for(outcome, 10)

    assert asyncio.run(scenario()) == (35, "The session has been closed")
