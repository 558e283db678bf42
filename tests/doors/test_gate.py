"""Who is let in: the gate against a naive model at random, and clients of a server that is blocked or busy."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.config import Config
from penstock.doors.gate import BlockKey, BlockScope, Gate
from penstock.doors.load import PULSE
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.tally import Tally
from tests.conformance.phrases import create
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange

SETS = ("A", "B", "DASHBOARD")
USERS = (None, "ann", "bob", "A")
MAX_LAG = 200
MAX_MEMORY = 1_000

LIMITS = msgspec.structs.replace(Config().limits, max_lag_millis=MAX_LAG, max_memory_bytes=MAX_MEMORY)


class GateMachine(RuleBasedStateMachine):
    """The model keeps sentences: who is blocked, how late each beat was, how much memory there is."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.tally = Tally()
        self.gate = Gate(LIMITS, self.tally, lambda: self.now)
        self.blocked_sets: set[str] = set()
        self.blocked_users: set[str] = set()
        self.all_blocked = False
        self.draining = False
        self.memory = 0
        # When the loop was late, and by how much; when it beats next.
        self.late: list[tuple[float, float]] = []
        self.next_beat: float | None = None
        self.refused = 0

    @rule(blocked=st.booleans())
    def block_all(self, blocked: bool) -> None:
        self._set(BlockKey(BlockScope.ALL), blocked)
        self.all_blocked = blocked

    @rule(name=st.sampled_from(SETS), blocked=st.booleans())
    def block_set(self, name: str, blocked: bool) -> None:
        self._set(BlockKey(BlockScope.ADAPTER_SET, name), blocked)
        (self.blocked_sets.add if blocked else self.blocked_sets.discard)(name)

    @rule(name=st.sampled_from(["ann", "bob", "A"]), blocked=st.booleans())
    def block_user(self, name: str, blocked: bool) -> None:
        self._set(BlockKey(BlockScope.USER, name), blocked)
        (self.blocked_users.add if blocked else self.blocked_users.discard)(name)

    def _set(self, key: BlockKey, blocked: bool) -> None:
        if blocked:
            self.gate.blocks[key] = "root"
        else:
            self.gate.blocks.pop(key, None)

    @rule(draining=st.booleans())
    def drain(self, draining: bool) -> None:
        self.gate.draining = self.draining = draining

    @rule(late=st.sampled_from([0.0, 0.05, 0.19, 0.21, 3.0]), memory=st.sampled_from([0, MAX_MEMORY, MAX_MEMORY + 1]))
    def beat(self, late: float, memory: int) -> None:
        if self.next_beat is not None:
            self.now = max(self.now, self.next_beat + late)
            self.late.append((self.now, self.now - self.next_beat))
        self.next_beat = self.now + PULSE
        self.memory = memory
        self.gate.load.beat(self.now, memory)

    @precondition(lambda self: self.next_beat is not None)
    @rule(seconds=st.sampled_from([0.01, 0.35]))
    def stall(self, seconds: float) -> None:
        self.now += seconds

    def expected(self, adapter_set: str, user: str | None) -> Reason | None:
        if self.draining:
            return Reason.DRAINING
        if adapter_set in self.blocked_sets:
            return Reason.BLOCKED
        if adapter_set != "DASHBOARD" and (self.all_blocked or user in self.blocked_users):
            return Reason.BLOCKED
        lags = [late for when, late in self.late if when > self.now - 1.0]
        if self.next_beat is not None:
            lags.append(self.now - self.next_beat)
        if max(lags, default=0.0) * 1000 > MAX_LAG:
            return Reason.OVERLOADED
        return Reason.MAX_LOAD if self.memory > MAX_MEMORY else None

    @invariant()
    def everybody_is_let_in_as_the_model_says(self) -> None:
        for adapter_set in SETS:
            for user in USERS:
                found = None
                try:
                    self.gate.check(adapter_set, user)
                except Refusal as refusal:
                    found = refusal.reason
                    self.refused += 1
                assert found == self.expected(adapter_set, user), (adapter_set, user)
        assert self.tally.refused_sessions == self.refused


TestGate = GateMachine.TestCase


@pytest.fixture
def exchange(server: BackgroundServer) -> Exchange:
    return Exchange(server.host, server.port)


def opened(exchange: Exchange, **parameters: object) -> str:
    return exchange.request("create_session", create(polling=True, **parameters))[0]


@pytest.mark.parametrize(
    ("key", "shut", "open_"),
    [
        pytest.param(BlockKey(BlockScope.ALL), [{}, {"user": "ann"}, {"adapter_set": "DEMO"}], [], id="all"),
        pytest.param(
            BlockKey(BlockScope.ADAPTER_SET, "TEST"), [{}, {"user": "ann"}], [{"adapter_set": "WELCOME"}], id="set"
        ),
        pytest.param(BlockKey(BlockScope.USER, "ann"), [{"user": "ann"}], [{}, {"user": "bob"}], id="user"),
    ],
)
def test_new_sessions_are_blocked_and_those_that_are_open_go_on(
    server: BackgroundServer,
    exchange: Exchange,
    key: BlockKey,
    shut: list[dict[str, object]],
    open_: list[dict[str, object]],
) -> None:
    with exchange.stream(user="ann") as stream:
        server.call(server.server.gate.blocks.__setitem__, key, "root")
        for parameters in shut:
            assert opened(exchange, **parameters) == "CONERR,10,New sessions temporarily blocked"
        for parameters in open_:
            assert opened(exchange, **parameters).startswith("CONOK,")
        assert exchange.control(stream.session, reqId=1, op="constrain", requested_max_bandwidth=5) == ["REQOK,1"]
        assert stream.read_line() == "CONS,5"
        server.call(server.server.gate.blocks.pop, key)
        for parameters in shut:
            assert opened(exchange, **parameters).startswith("CONOK,")


def test_a_user_is_blocked_by_the_name_that_the_metadata_adapter_knows_and_only_when_the_password_is_right(
    server: BackgroundServer, exchange: Exchange
) -> None:
    server.call(server.server.gate.blocks.__setitem__, BlockKey(BlockScope.USER, "nobody"), "root")
    assert opened(exchange, user="nobody").startswith("CONERR,1,")


@pytest.mark.config({"limits.max_lag_millis": 60_000})
def test_a_loop_that_was_late_refuses_new_sessions_for_a_while(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exchange.stream() as stream:
        with monkeypatch.context() as late:
            late.setattr(server.server.gate, "_clock", lambda: time.monotonic() + 100)
            assert opened(exchange) == "CONERR,5,Configured maximum lag of the server reached: 60000 ms"
            assert exchange.control(stream.session, reqId=1, op="constrain") == ["REQOK,1"]
        assert opened(exchange).startswith("CONOK,")


@pytest.mark.config({"limits.max_lag_millis": 60_000})
def test_a_stall_is_measured_before_the_loop_turns_again(server: BackgroundServer) -> None:
    load = server.server.gate.load

    def stall() -> float:
        time.sleep(0.5)
        return load.lag(time.monotonic())

    assert server.call(stall) > 0.3


@pytest.mark.config({"limits.max_memory_bytes": 1_000_000})
def test_a_process_with_too_much_memory_refuses_new_sessions(exchange: Exchange) -> None:
    assert opened(exchange) == "CONERR,9,Configured maximum memory of the server reached: 1000000 bytes"


@pytest.mark.config({"limits.max_memory_bytes": 2**50, "limits.max_lag_millis": 60_000})
def test_a_process_within_its_limits_lets_clients_in(server: BackgroundServer, exchange: Exchange) -> None:
    assert opened(exchange).startswith("CONOK,")
    assert server.server.gate.load.memory > 1_000_000
