"""The metadata adapter decides again when a client wants another bandwidth or frequency, and may change both itself."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter, Reason, Refusal
from penstock.adapters.server import ServerHandle
from penstock.kernel.ports import Admission, ClientFacts, SessionFacts
from penstock.kernel.ruling import Ruling
from tests.adapters.stage import SetServer
from tests.support.raw import Stream, params

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"


class Limiter(MetadataAdapter):
    """Allows what the test says at the time."""

    def __init__(self) -> None:
        self.bandwidth: object = 100.0
        self.frequencies: dict[str, object] = {}
        self.asked: list[str] = []
        self.session = ""
        self.gate: threading.Event | None = None

    def new_session(self, session: SessionFacts) -> None:
        self.session = session.id

    def max_bandwidth(self, user: str | None) -> float | None:
        self.asked.append(f"bandwidth {user}")
        return self._answer(self.bandwidth)  # type: ignore[return-value]

    def max_frequency(self, session: SessionFacts, data_adapter: str, item: str) -> float | None:
        self.asked.append(f"frequency {session.user} {data_adapter} {item}")
        return self._answer(self.frequencies.get(item))  # type: ignore[return-value]

    def _answer(self, answer: object) -> object:
        if self.gate is not None:
            self.gate.wait(20)
        if isinstance(answer, Exception):
            raise answer
        return answer


class QuickLimiter(Limiter):
    quick = True


class AsyncLimiter(Limiter):
    async def max_bandwidth(self, user: str | None) -> float | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().max_bandwidth(user)

    async def max_frequency(  # type: ignore[override]
        self, session: SessionFacts, data_adapter: str, item: str
    ) -> float | None:
        await asyncio.sleep(0)
        return super().max_frequency(session, data_adapter, item)


class Running:
    def __init__(self, limiter: Limiter, server: SetServer, stream: Stream) -> None:
        self.limiter = limiter
        self.server = server
        self.stream = stream

    def ask(self, **parameters: object) -> list[str]:
        return self.server.exchange.control(self.stream.session, **parameters)

    def constrain(self, bandwidth: object) -> list[str]:
        return self.ask(reqId=1, op="constrain", requested_max_bandwidth=bandwidth)

    def reconfigure(self, frequency: object) -> list[str]:
        return self.ask(reqId=1, op="reconf", subId=1, requested_max_frequency=frequency)

    def told(self, tag: str) -> str:
        return self.stream.read_until(tag)[-1]

    @property
    def handle(self) -> ServerHandle:
        return self.limiter.server

    @property
    def id(self) -> str:
        return self.limiter.session


@pytest.fixture(params=[Limiter, QuickLimiter, AsyncLimiter])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    limiter: Limiter = request.param()
    limiter.frequencies = {"a": 5.0, "b": 2.0}
    with (
        SetServer([AdapterSet("SET", limiter, {"ADAPTER": DataAdapter()})]) as server,
        server.open(user="ann") as stream,
    ):
        assert server.subscribe(stream, "a b", "x") == ["REQOK,1"]
        assert stream.read_until("CONF")[-1] == "CONF,1,5.0,filtered"
        limiter.asked.clear()
        yield Running(limiter, server, stream)


def test_a_bandwidth_is_decided_anew_with_every_request(running: Running) -> None:
    running.limiter.bandwidth = 50.0
    assert running.constrain("unlimited") == ["REQOK,1"]
    assert running.told("CONS") == "CONS,50"
    running.limiter.bandwidth = None
    assert running.constrain(70) == ["REQOK,1"]
    assert running.told("CONS") == "CONS,70"
    assert running.constrain("unlimited") == ["REQOK,1"]
    assert running.told("CONS") == "CONS,unlimited"
    assert running.limiter.asked == ["bandwidth ann"] * 3


def test_a_frequency_is_decided_anew_with_every_request(running: Running) -> None:
    running.limiter.frequencies = {"a": 1.0, "b": 3.0}
    assert running.reconfigure("unlimited") == ["REQOK,1"]
    assert running.told("CONF") == "CONF,1,3.0,filtered"
    running.limiter.frequencies = {"a": None, "b": 3.0}
    assert running.reconfigure(2) == ["REQOK,1"]
    assert running.told("CONF") == "CONF,1,2.0,filtered"
    assert running.limiter.asked == ["frequency ann ADAPTER a", "frequency ann ADAPTER b"] * 2


@pytest.mark.parametrize("answer", [0, -1.0, True, float("nan"), float("inf"), "5", (5,), RuntimeError("on purpose")])
def test_an_answer_that_makes_no_sense_is_a_failure_and_changes_nothing(running: Running, answer: object) -> None:
    running.limiter.bandwidth = answer
    running.limiter.frequencies = {"a": answer}
    # Which code a failure of the metadata adapter has is for all requests the same.
    assert running.constrain(10)[0].startswith("REQERR,1,66,The metadata adapter failed")
    assert running.reconfigure(1)[0].startswith("REQERR,1,66,The metadata adapter failed")
    session = running.server.server.kernel.find_session(running.id)
    assert session.max_bandwidth == 100.0
    assert session.subscriptions[1].max_frequency == 5.0


def test_a_refusal_with_a_code_is_told_and_changes_nothing(running: Running) -> None:
    running.limiter.bandwidth = Refusal(Reason.CREDENTIALS, "Not more", code=-4)
    running.limiter.frequencies = {"a": Refusal(Reason.CREDENTIALS, "Not faster", code=-5)}
    assert running.constrain("unlimited") == ["REQERR,1,-4,Not more"]
    assert running.reconfigure("unlimited") == ["REQERR,1,-5,Not faster"]
    assert running.server.server.kernel.find_session(running.id).max_bandwidth == 100.0


def test_what_an_administrator_has_set_stands_in_place_of_its_decision(running: Running) -> None:
    session = running.server.server.kernel.find_session(running.id)
    running.server.call(lambda: session.rule(Ruling(30.0)))
    running.server.call(lambda: session.subscriptions[1].rule(Ruling(9.0)))
    running.limiter.bandwidth, running.limiter.frequencies = 1.0, {"a": 1.0, "b": 1.0}
    assert running.constrain("unlimited") == ["REQOK,1"]
    assert running.reconfigure("unlimited") == ["REQOK,1"]
    assert running.limiter.asked == []
    assert (session.max_bandwidth, session.subscriptions[1].max_frequency) == (30.0, 9.0)
    # Nor does what it sets itself come to bear before that is taken back.
    assert running.handle.set_bandwidth(running.id, 2.0)
    assert running.handle.set_frequency(running.id, 1, 4.0)
    assert (session.max_bandwidth, session.subscriptions[1].max_frequency) == (30.0, 9.0)
    running.server.call(lambda: session.rule(None))
    running.server.call(lambda: session.subscriptions[1].rule(None))
    assert (session.max_bandwidth, session.subscriptions[1].max_frequency) == (2.0, 4.0)


def test_limits_are_set_at_any_time_from_any_thread_and_clients_are_told(running: Running) -> None:
    assert running.handle.set_bandwidth(running.id, 12.5)
    assert running.told("CONS") == "CONS,12.5"
    assert running.handle.set_frequency(running.id, 1, 0.5)
    assert running.told("CONF") == "CONF,1,0.5,filtered"
    assert running.handle.set_bandwidth(running.id, None)
    assert running.told("CONS") == "CONS,unlimited"
    assert running.handle.set_frequency(running.id, 1, None)
    assert running.told("CONF") == "CONF,1,unlimited,filtered"


def test_what_does_not_exist_cannot_be_limited_and_what_makes_no_sense_is_told(running: Running) -> None:
    assert not running.handle.set_bandwidth("Snobody", 1.0)
    assert not running.handle.set_frequency(running.id, 7, 1.0)
    for wrong in (0, -1, True, float("nan"), float("inf"), "5"):
        with pytest.raises(ValueError, match="is not a limit; expected a number above 0, or None"):
            running.handle.set_bandwidth(running.id, wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="is not a limit; expected a number above 0, or None"):
            running.handle.set_frequency(running.id, 1, wrong)  # type: ignore[arg-type]
    assert running.server.subscribe(running.stream, "c", "x", "RAW", 2) == ["REQOK,2"]
    with pytest.raises(ValueError, match="Subscription 2 is unfiltered; its frequency cannot be limited"):
        running.handle.set_frequency(running.id, 2, 1.0)


def test_an_unfiltered_subscription_is_refused_without_asking(running: Running) -> None:
    running.limiter.frequencies = {}
    assert running.server.subscribe(running.stream, "c", "x", number=2, requested_max_frequency="unfiltered")
    running.limiter.asked.clear()
    assert running.ask(reqId=1, op="reconf", subId=2, requested_max_frequency=1)[0].startswith("REQERR,1,13,")
    assert running.limiter.asked == []


def test_requests_for_bandwidth_are_decided_in_their_order() -> None:
    limiter = Limiter()
    with SetServer([AdapterSet("SET", limiter, {"ADAPTER": DataAdapter()})]) as server, server.exchange.socket() as one:
        one.send("create_session", "LS_adapter_set=SET&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg")
        one.read_until("CONS")
        limiter.gate = threading.Event()
        for number, bandwidth in enumerate((40, 30, 20), start=1):
            one.send("control", f"LS_reqId={number}&LS_op=constrain&LS_requested_max_bandwidth={bandwidth}")
        limiter.gate.set()
        lines = [one.read_until("REQOK")[-1] for _ in range(3)]
        assert lines == ["REQOK,1", "REQOK,2", "REQOK,3"]
        session = server.server.kernel.find_session(limiter.session)
        assert session.max_bandwidth == 20.0


class Fixed(Limiter):
    """Says at the login what holds."""

    def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        return Admission(max_bandwidth=8.0, reexamines_bandwidth=user == "again")


@pytest.mark.parametrize(("user", "expected"), [("ann", "CONS,8"), ("again", "CONS,100")])
def test_a_limit_that_came_with_the_login_holds_unless_it_says_otherwise(user: str, expected: str) -> None:
    with (
        SetServer([AdapterSet("SET", Fixed(), {"ADAPTER": DataAdapter()})]) as server,
        server.open(user=user) as stream,
    ):
        server.exchange.control(stream.session, reqId=1, op="constrain", requested_max_bandwidth="unlimited")
        assert stream.read_until("CONS")[-1] == expected


def test_the_example_of_the_page_does_what_the_page_says() -> None:
    section = PAGE.read_text("utf-8").partition("## Limits that change\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```python limits.py\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    with (
        SetServer([AdapterSet("SET", names["Limits"](), {"ADAPTER": DataAdapter()})]) as server,
        server.open(user="guest") as stream,
    ):
        assert stream.head[-1] == "CONS,100"
        server.subscribe(stream, "a", "x")
        server.exchange.request("msg", params(session=stream.session, reqId=1, message="slow", outcome=False))
        assert stream.read_until("CONS")[-1] == "CONS,50"
        assert stream.read_until("CONF")[-1] == "CONF,1,2.0,filtered"
