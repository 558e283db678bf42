"""Random requests with random delays over real sockets, against a naive model that carries them out one by one.

Whatever the delays: every request has one answer, requests about the same subscription have the answers of the model,
messages of a sequence reach the adapter in order, and no more calls are under way than a session may have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter, Reason, Refusal
from penstock.adapters.session_calls import MAX_CALLS
from penstock.kernel.ports import SessionFacts, SubscriptionFacts
from tests.adapters.stage import SetServer
from tests.support.effort import tries
from tests.support.raw import Socket, params

# Few, so that requests meet; and more than the limits of the server at a time.
NUMBERS = st.integers(1, 3)
SEQUENCES = ("one", "two")
MESSAGES = 6

# More than a session may have calls, so that it is not this limit alone that holds them back; the numbers above those
# that requests meet at have subscriptions of their own.
REQUESTS = MAX_CALLS + 4
CROWD = range(4, 4 + REQUESTS)

Line = tuple[str, str]


class Feed(DataAdapter):
    quick = True


class Delays(MetadataAdapter):
    """Takes as many milliseconds for an answer as the first letters of a group or a message say; refuses group `no`."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        self.most = 0
        self.messages: dict[str, list[str]] = {}
        self.known: dict[str, set[int]] = {}
        self.complaints: list[str] = []

    async def _take(self, session: SessionFacts, millis: str) -> None:
        self.under_way[session.id] += 1
        self.most = max(self.most, self.under_way[session.id])
        await asyncio.sleep(int(millis) / 1000)
        self.under_way[session.id] -= 1

    async def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:
        millis, _, name = group.partition(" ")
        await self._take(session, millis)
        if name == "no":
            raise Refusal(Reason.GROUP, "No")
        return [name]

    async def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        known = self.known.setdefault(session.id, set())
        if subscription.number in known:
            self.complaints.append(f"{subscription.number} begins twice")
        known.add(subscription.number)
        await self._take(session, "1")

    async def unsubscribed(self, session: SessionFacts, subscription: SubscriptionFacts, statistics: object) -> None:
        if subscription.number not in self.known.get(session.id, ()):
            self.complaints.append(f"{subscription.number} ends without having begun")
        await asyncio.sleep(0.001)
        self.known[session.id].discard(subscription.number)

    async def session_closed(self, session: SessionFacts) -> None:
        if self.under_way[session.id]:
            self.complaints.append("the session is closed with calls under way")
        if left := self.known.pop(session.id, None):
            self.complaints.append(f"the session is closed before the end of {left}")

    async def message(self, session: SessionFacts, text: str) -> str | None:
        millis, _, name = text.partition(" ")
        await self._take(session, millis)
        self.messages.setdefault(session.id, []).append(name)
        return None


@dataclass
class Model:
    """What one client asks for, and the answers if everything were carried out one after the other."""

    lines: list[Line] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    subscribed: set[int] = field(default_factory=set)
    sent: Counter[str] = field(default_factory=Counter)

    def _ask(self, name: str, answer: str, **parameters: object) -> None:
        request_id = f"r{len(self.lines)}"
        self.lines.append((name, params(reqId=request_id, **parameters)))
        self.answers[request_id] = f"REQOK,{request_id}" if answer == "OK" else f"REQERR,{request_id},{answer},"

    def add(self, number: int, millis: int, item: str) -> None:
        answer = "65" if number in self.subscribed else "21" if item == "no" else "OK"
        if answer == "OK":
            self.subscribed.add(number)
        group = f"{millis} {item}"
        self._ask("control", answer, op="add", subId=number, group=group, schema="x", mode="MERGE")

    def crowd(self, millis: int) -> None:
        """As many at once as the server takes in."""
        for number in CROWD:
            self.add(number, millis, "a")

    def reconf(self, number: int) -> None:
        self._ask("control", "OK" if number in self.subscribed else "19", op="reconf", subId=number)

    def delete(self, number: int) -> None:
        self._ask("control", "OK" if number in self.subscribed else "19", op="delete", subId=number)
        self.subscribed.discard(number)

    def message(self, sequence: str, millis: int) -> None:
        self.sent[sequence] += 1
        number = self.sent[sequence]
        text = f"{millis} {sequence}{number}"
        self._ask("msg", "OK", message=text, sequence=sequence, msg_prog=number)

    def constrain(self) -> None:
        self._ask("control", "OK", op="constrain")

    def malformed(self) -> None:
        request_id = f"r{len(self.lines)}"
        self.lines.append(("msg", f"LS_reqId={request_id}&LS_message=%"))
        self.answers[request_id] = f"REQERR,{request_id},67,"


millis = st.integers(0, 4)
steps = st.one_of(
    st.tuples(st.just("add"), NUMBERS, millis, st.sampled_from(("a", "b", "no"))),
    st.tuples(st.just("crowd"), millis),
    st.tuples(st.just("reconf"), NUMBERS),
    st.tuples(st.just("delete"), NUMBERS),
    st.tuples(st.just("message"), st.sampled_from(SEQUENCES), millis),
    st.tuples(st.just("constrain")),
    st.tuples(st.just("malformed")),
)


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[SetServer, Delays]]:
    delays = Delays()
    limits = {"limits.max_unanswered_requests": REQUESTS, "limits.max_pending_messages": MESSAGES}
    with SetServer([AdapterSet("SET", delays, {"DEFAULT": Feed()})], limits) as server:
        yield server, delays


def messages_of(lines: Sequence[Line], batch: int) -> Iterator[tuple[str, list[str]]]:
    """The lines as WebSocket messages: up to `batch` neighbours with the same name in each."""
    waiting: list[str] = []
    before = ""
    for name, line in lines:
        if waiting and (name != before or len(waiting) >= batch):
            yield before, waiting
            waiting = []
        waiting.append(line)
        before = name
    if waiting:
        yield before, waiting


def answers_of(socket: Socket, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        line = socket.read_line()
        if line.startswith(("REQOK", "REQERR", "ERROR")):
            found.append(line)
    return found


@given(st.lists(steps, min_size=1, max_size=40), st.integers(1, 10), st.booleans())
@settings(max_examples=tries(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_requests_side_by_side_are_answered_as_if_they_came_one_by_one(
    place: tuple[SetServer, Delays], moves: list[tuple[str, int]], batch: int, at_once: bool
) -> None:
    server, delays = place
    delays.complaints.clear()
    model = Model()
    for name, *arguments in moves:
        getattr(model, name)(*arguments)
    with server.exchange.socket() as socket:
        if at_once:
            # Everything is sent before the session is there.
            socket.send("create_session", params(adapter_set="SET"))
        else:
            socket.create("SET")
        for name, lines in messages_of(model.lines, batch):
            socket.send(name, *lines)
        found = answers_of(socket, len(model.lines))
        assert len(found) == len(model.lines)
        for line in found:
            expected = model.answers.pop(line.split(",")[1])
            assert line.startswith(expected)
        assert not model.answers
        socket.send("control", params(reqId="end", op="destroy"))
        socket.read_until("END")
    while server.call(len, delays.known):
        pass  # Until the adapter has heard of the end of the session.
    server.call(_check, delays)


def _check(delays: Delays) -> None:
    assert delays.most <= MAX_CALLS
    assert delays.complaints == []
    for told in delays.messages.values():
        for sequence in SEQUENCES:
            own = [text for text in told if text.startswith(sequence)]
            assert own == [f"{sequence}{number}" for number in range(1, len(own) + 1)]
