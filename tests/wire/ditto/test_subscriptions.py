from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.wire.ditto.document import MAX_LONG
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.ranges import HistoryRange
from penstock.wire.ditto.streaming import (
    Cancel,
    Complete,
    Created,
    DemandRequest,
    Next,
    StreamFailed,
    SubscribeForPersistedEvents,
)
from penstock.wire.ditto.subscriptions import (
    MAX_REMEMBERED,
    HistorySubscription,
    HistorySubscriptionState,
    Subscriptions,
)
from penstock.wire.ditto.thing_errors import THING_NOT_FOUND
from penstock.wire.ditto.topic import Criterion, Topic, thing_topic
from tests.support.effort import tries

THING = thing_topic("a", "b", Criterion.STREAMING, "subscribeForPersistedEvents")
OTHER = thing_topic("c", "d", Criterion.STREAMING, "request")
ENDED = "This subscription is considered cancelled. No more messages are processed."
NOT_POSITIVE = "The number of requested elements must be > 0 (see reactive-streams specification, rule 3.9)"


def subscribe(table: Subscriptions, now: float = 0.0, correlation: str = "a") -> Created:
    return table.subscribe(SubscribeForPersistedEvents(THING, {"correlation-id": correlation}, HistoryRange()), now)


def request(
    table: Subscriptions, number: str, demand: int, now: float = 0.0, correlation: str = "b", topic: Topic = THING
) -> HistorySubscription | StreamFailed:
    return table.request(DemandRequest(topic, {"correlation-id": correlation}, number, demand), now)


def cancel(table: Subscriptions, number: str, now: float = 0.0) -> HistorySubscription | StreamFailed | None:
    return table.cancel(Cancel(OTHER, {"correlation-id": "c"}, number), now)


def flowing(table: Subscriptions, demand: int, now: float = 0.0) -> HistorySubscription:
    number = subscribe(table, now).subscription
    found = request(table, number, demand, now)
    assert isinstance(found, HistorySubscription)
    return found


def failure(found: Any) -> tuple[int, str, str]:
    assert isinstance(found, StreamFailed)
    return found.error.status, found.error.code, found.error.message


def test_subscriptions_are_numbered_from_zero_and_created_echoes_the_headers() -> None:
    table = Subscriptions()
    first, second = subscribe(table), subscribe(table, correlation="x")
    assert (first.subscription, second.subscription) == ("0", "1")
    assert second.envelope().headers == {"correlation-id": "x", "content-type": "application/json"}
    assert str(first.envelope().topic) == "a/b/things/twin/streaming/created"


def test_a_number_is_never_used_again() -> None:
    table = Subscriptions()
    subscribe(table)
    cancel(table, "0")
    table.expire(1000.0)
    assert subscribe(table, 1000.0).subscription == "1"


def test_demand_is_additive() -> None:
    table = Subscriptions()
    subscription = flowing(table, 2)
    request(table, subscription.id, 3)
    assert subscription.wanted == 5
    subscription.next("item", 0.0)
    assert subscription.wanted == 4


def test_demand_saturates_at_the_largest_long() -> None:
    table = Subscriptions()
    subscription = flowing(table, MAX_LONG)
    request(table, subscription.id, MAX_LONG)
    assert subscription.wanted == MAX_LONG
    subscription.next("item", 0.0)
    assert subscription.wanted == MAX_LONG - 1


def test_never_more_items_are_sent_than_requested() -> None:
    subscription = flowing(Subscriptions(), 2)
    assert len(subscription.next_frames([b"1", b"2"], 0.0)) == 2
    with pytest.raises(ValueError, match="1 items, wanted: 0"):
        subscription.next("item", 0.0)
    with pytest.raises(ValueError, match="2 items, wanted: 0"):
        subscription.next_frames([b"1", b"2"], 0.0)


def test_complete_needs_no_extra_demand() -> None:
    subscription = flowing(Subscriptions(), 1)
    subscription.next("item", 0.0)
    done = subscription.complete(0.0)
    assert isinstance(done, Complete)
    assert done.envelope().value == {"subscriptionId": "0"}


def test_nothing_ends_before_the_first_request() -> None:
    table = Subscriptions()
    subscribe(table)
    subscription = table._alive["0"]
    assert subscription.wanted == 0
    with pytest.raises(ValueError, match="before the first request"):
        subscription.complete(0.0)
    with pytest.raises(ValueError, match="before the first request"):
        subscription.fail(THING_NOT_FOUND.of("a:b"), 0.0)


def test_nothing_comes_after_the_end() -> None:
    subscription = flowing(Subscriptions(), 5)
    assert subscription.complete(0.0) is not None
    assert subscription.complete(0.0) is None
    assert subscription.fail(THING_NOT_FOUND.of("a:b"), 0.0) is None
    assert subscription.wanted == 0


def test_a_history_that_cannot_be_read_fails_the_subscription() -> None:
    subscription = flowing(Subscriptions(), 5)
    failed = subscription.fail(THING_NOT_FOUND.of("a:b"), 0.0)
    assert failed is not None
    assert failed.envelope().headers == {"correlation-id": "b", "content-type": "application/json"}
    assert failure(failed)[:2] == (404, "things:thing.notfound")


@pytest.mark.parametrize("demand", [0, -1, -(2**63)])
@pytest.mark.parametrize("before", [(), (5,)])
def test_a_demand_below_one_is_a_breach_that_ends_it(demand: int, before: tuple[int, ...]) -> None:
    table = Subscriptions()
    subscribe(table)
    for each in before:
        request(table, "0", each)
    assert failure(request(table, "0", demand)) == (400, "streaming.subscription.protocol.error", NOT_POSITIVE)
    assert failure(request(table, "0", 1)) == (400, "streaming.subscription.protocol.error", ENDED)


def test_a_request_for_an_unknown_subscription_fails_on_the_topic_of_the_request() -> None:
    found = request(Subscriptions(), "17", 1, topic=OTHER)
    assert failure(found) == (404, "streaming.subscription.not.found", "No subscription with ID '17' exists.")
    assert isinstance(found, StreamFailed)
    assert str(found.envelope().topic) == "c/d/things/twin/streaming/failed"
    assert found.subscription == "17"
    assert failure(cancel(Subscriptions(), "17"))[:2] == (404, "streaming.subscription.not.found")


def test_a_subscription_of_another_connection_is_unknown() -> None:
    one, other = Subscriptions(), Subscriptions()
    subscribe(one)
    assert failure(request(other, "0", 1))[1] == "streaming.subscription.not.found"


def test_the_entity_of_a_request_does_not_matter() -> None:
    table = Subscriptions()
    subscribe(table)
    subscription = request(table, "0", 1, topic=OTHER)
    assert isinstance(subscription, HistorySubscription)
    assert str(subscription.next("item", 0.0).envelope().topic) == "a/b/things/twin/streaming/next"


def test_items_carry_the_headers_of_the_latest_request() -> None:
    table = Subscriptions()
    subscription = flowing(table, 2)
    first = subscription.next_frames([b"1"], 0.0)[0]
    request(table, "0", 1, correlation="later")
    second = subscription.next_frames([b"1"], 0.0)[0]
    assert b'"correlation-id":"b"' in first
    assert b'"correlation-id":"later"' in second
    assert subscription.next("x", 0.0).headers == {"correlation-id": "later"}
    assert subscription.origin == {"correlation-id": "a"}


@pytest.mark.parametrize("before", [(), (5,)])
def test_cancel_is_silent_and_final(before: tuple[int, ...]) -> None:
    table = Subscriptions()
    subscribe(table)
    for each in before:
        request(table, "0", each)
    found = cancel(table, "0")
    assert isinstance(found, HistorySubscription)
    assert (found.state, found.wanted) == (HistorySubscriptionState.ENDED, 0)
    assert cancel(table, "0", 9.9) is None
    assert failure(request(table, "0", 1, 9.9)) == (400, "streaming.subscription.protocol.error", ENDED)


def test_ten_seconds_after_its_end_a_subscription_is_forgotten() -> None:
    table = Subscriptions()
    flowing(table, 1).complete(5.0)
    assert failure(request(table, "0", 1, 14.9))[0] == 400
    assert failure(request(table, "0", 1, 15.0))[0] == 404
    assert failure(cancel(table, "0", 15.0))[0] == 404


def test_a_subscription_that_nobody_ever_requests_from_times_out() -> None:
    table = Subscriptions()
    subscribe(table)
    assert table.deadline() == 60.0
    assert table.expire(59.9) == []
    [(subscription, failed)] = table.expire(60.0)
    assert failure(failed) == (
        408,
        "streaming.subscription.timeout",
        "The subscription '0' stopped due to a lack of interaction.",
    )
    assert failed.headers == {"correlation-id": "a"}
    assert subscription.state is HistorySubscriptionState.ENDED
    assert table.deadline() == 70.0
    assert table.expire(70.0) == []
    assert table.deadline() is None


def test_every_message_in_or_out_keeps_a_subscription_alive() -> None:
    table = Subscriptions()
    subscription = flowing(table, 10, now=50.0)
    assert table.deadline() == 110.0
    subscription.next("item", 100.0)
    assert table.deadline() == 160.0
    request(table, "0", 1, 150.0, correlation="last")
    assert table.expire(209.0) == []
    [(_, failed)] = table.expire(210.0)
    assert failed.headers == {"correlation-id": "last"}


def test_there_is_a_limit_to_living_subscriptions() -> None:
    table = Subscriptions(limit=2)
    subscribe(table)
    subscribe(table)
    with pytest.raises(DittoError) as caught:
        subscribe(table)
    assert (caught.value.status, caught.value.code) == (429, "too.many.requests")
    cancel(table, "0")
    assert subscribe(table).subscription == "2"


def test_of_those_that_are_over_only_so_many_are_remembered() -> None:
    table = Subscriptions()
    for _ in range(MAX_REMEMBERED + 1):
        cancel(table, subscribe(table).subscription)
    assert failure(request(table, "0", 1))[0] == 404
    assert failure(request(table, "1", 1))[0] == 400


# -- against a naive model ---------------------------------------------------------------------------------------------


@dataclass
class Naive:
    """All there is to know of one subscription, written down and never thought about until a question comes."""

    history: list[int] | None = None  # None before the first request
    asked: int = 0
    sent: list[int] = field(default_factory=list)
    over: float | None = None
    touched: float = 0.0


class SubscriptionsAgainstModel(RuleBasedStateMachine):
    """Two connections, one history that grows, and a reader that sends whatever may be sent, at once or in steps."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.history: list[int] = []
        self.tables = [Subscriptions(), Subscriptions()]
        self.models: list[dict[str, Naive]] = [{}, {}]

    connections = st.integers(0, 1)
    numbers = st.integers(0, 4).map(str)

    @rule(count=st.integers(1, 3))
    def write(self, count: int) -> None:
        for _ in range(count):
            self.history.append(len(self.history) + 1)

    @rule(seconds=st.sampled_from([0.0, 0.5, 9.5, 10.0, 30.0, 59.5, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for table, models in zip(self.tables, self.models, strict=True):
            expected = [n for n, m in models.items() if m.over is None and self.now >= m.touched + 60.0]
            expired = table.expire(self.now)
            assert [each.id for each, _ in expired] == expected
            assert all(failed.error.status == 408 for _, failed in expired)
            for number in expected:
                models[number].over = self.now

    @rule(connection=connections)
    def subscribe(self, connection: int) -> None:
        models = self.models[connection]
        created = subscribe(self.tables[connection], self.now)
        assert created.subscription == str(len(models))
        models[created.subscription] = Naive(touched=self.now)

    @rule(
        connection=connections, number=numbers, demand=st.sampled_from([-1, 0, 1, 2, 5, MAX_LONG]), pieces=st.booleans()
    )
    def request(self, connection: int, number: str, demand: int, pieces: bool) -> None:
        model = self.models[connection].get(number)
        found = request(self.tables[connection], number, demand, self.now)
        if model is None or (model.over is not None and self.now >= model.over + 10.0):
            assert failure(found)[0] == 404
        elif model.over is not None:
            assert failure(found)[2] == ENDED
        elif demand <= 0:
            assert failure(found)[2] == NOT_POSITIVE
            model.over = self.now
        else:
            assert isinstance(found, HistorySubscription)
            if model.history is None:
                model.history = list(self.history)
            model.asked = min(MAX_LONG, model.asked + demand)
            model.touched = self.now
            if not pieces:
                self.deliver(connection, found, model)

    @precondition(lambda self: any(self.models))
    @rule(connection=connections, number=numbers)
    def read_on(self, connection: int, number: str) -> None:
        """The reader comes back to a subscription that it left with demand unmet, or that is over by now."""
        model = self.models[connection].get(number)
        table = self.tables[connection]
        found = None if model is None else table._alive.get(number) or table._ended.get(number)
        if model is not None and found is not None and model.history is not None:
            self.deliver(connection, found, model)

    def deliver(self, connection: int, found: HistorySubscription, model: Naive) -> None:
        assert model.history is not None
        if model.over is not None:
            assert found.wanted == 0
            assert found.complete(self.now) is None
            return
        expected = model.history[len(model.sent) : model.asked]
        sent: list[Next] = []
        while found.wanted and len(model.sent) + len(sent) < len(model.history):
            sent.append(found.next(model.history[len(model.sent) + len(sent)], self.now))
        assert [each.item for each in sent] == expected
        model.sent.extend(expected)
        if expected:
            model.touched = self.now
        if len(model.sent) == len(model.history):
            assert isinstance(found.complete(self.now), Complete)
            model.over = self.now

    @rule(connection=connections, number=numbers)
    def cancel(self, connection: int, number: str) -> None:
        model = self.models[connection].get(number)
        found = cancel(self.tables[connection], number, self.now)
        if model is None or (model.over is not None and self.now >= model.over + 10.0):
            assert failure(found)[0] == 404
        elif model.over is not None:
            assert found is None
        else:
            assert isinstance(found, HistorySubscription)
            model.over = self.now

    @invariant()
    def no_more_is_sent_than_asked(self) -> None:
        for models, table in zip(self.models, self.tables, strict=True):
            for number, model in models.items():
                assert len(model.sent) <= model.asked
                assert (number in table._alive) == (model.over is None)

    @invariant()
    def the_deadline_is_never_in_the_past_of_what_lives(self) -> None:
        for models, table in zip(self.models, self.tables, strict=True):
            alive = [m.touched + 60.0 for m in models.values() if m.over is None]
            deadline = table.deadline()
            assert not alive or (deadline is not None and deadline <= min(alive))


SubscriptionsAgainstModel.TestCase.settings = settings(max_examples=tries(80), stateful_step_count=40, deadline=None)
TestSubscriptionsAgainstModel = SubscriptionsAgainstModel.TestCase
