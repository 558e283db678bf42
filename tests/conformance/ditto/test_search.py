from __future__ import annotations

from typing import Any

import httpx
import pytest

from penstock.wire.ditto.search import DEFAULT_SIZE, MAX_SIZE
from penstock.wire.ditto.subscriptions import IDLE_SECONDS
from tests.conformance.ditto.phrases import ALL_OF_IT, NO_READ, row, shared
from tests.doors.ditto.site import Site
from tests.doors.ditto.world import READ, Message, Peer, World, failure, kinds, refusal

TOPIC = "_/_/things/twin/search"
PROTOCOL_ERROR = (400, "thing-search:subscription.protocol.error")
NOT_FOUND = (404, "thing-search:subscription.not.found")
OPTION = (400, "thing-search:search.option.invalid")


def search(action: str, value: Any = None, **more: Any) -> Message:
    return {"topic": f"{TOPIC}/{action}", "path": "/", **({} if value is None else {"value": value}), **more}


def subscribe(peer: Peer, fields: str | None = None, **value: Any) -> str:
    answer = peer.ask(search("subscribe", value, **({} if fields is None else {"fields": fields})))
    assert answer["topic"] == f"{TOPIC}/created"
    return str(answer["value"]["subscriptionId"])


def request(peer: Peer, number: str, demand: int = 1) -> list[Message]:
    return peer.say(search("request", {"subscriptionId": number, "demand": demand}))


def pages(messages: list[Message]) -> list[list[str]]:
    found = [message["value"]["items"] for message in messages if message["topic"].endswith("/next")]
    return [[item["thingId"] for item in page] for page in found]


def found(peer: Peer, **value: Any) -> list[str]:
    """All results of a search."""
    *messages, end = request(peer, subscribe(peer, **value), 1000)
    assert kinds([end]) == ["complete"], end
    return [id for page in pages(messages) for id in page]


def things(world: World, count: int) -> Peer:
    for number in range(count):
        world.make(f"ns:{number:03}", events=number % 2 + 1)
    return world.connect()


# -- the seven messages ------------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.search.created")
def test_subscribe_is_answered_with_created_whatever_it_searches_for(world: World) -> None:
    peer = world.connect()
    answer = peer.ask(search("subscribe", {"filter": "nonsense"}, headers={"correlation-id": "a"}))
    assert answer == {
        "topic": f"{TOPIC}/created",
        "headers": {"correlation-id": "a", "content-type": "application/json"},
        "path": "/",
        "value": {"subscriptionId": "0"},
    }
    assert subscribe(peer) == "1"


@pytest.mark.conformance("ditto.search.next")
def test_each_next_is_one_page(world: World) -> None:
    peer = things(world, 5)
    number = subscribe(peer, options="size(2)")
    assert pages(request(peer, number, 2)) == [["ns:000", "ns:001"], ["ns:002", "ns:003"]]
    assert kinds(request(peer, number)) == ["next", "complete"]


@pytest.mark.conformance("ditto.search.complete")
def test_complete_follows_the_last_page_without_being_asked_for(world: World) -> None:
    peer = things(world, 2)
    assert kinds(request(peer, subscribe(peer))) == ["next", "complete"]
    assert kinds(request(peer, subscribe(peer, filter="eq(attributes/counter,99)"))) == ["complete"]


@pytest.mark.conformance("ditto.search.cancel")
def test_cancel_has_no_answer_and_ends_it(world: World) -> None:
    peer = things(world, 3)
    number = subscribe(peer, options="size(1)")
    assert pages(request(peer, number)) == [["ns:000"]]
    assert peer.say(search("cancel", {"subscriptionId": number})) == []
    assert failure(request(peer, number)) == PROTOCOL_ERROR


@pytest.mark.conformance("ditto.search.pressure")
def test_nothing_is_sent_to_a_socket_that_takes_nothing(world: World) -> None:
    peer = things(world, 3)
    number = subscribe(peer, options="size(1)")
    peer.connection.set_writable(False)
    assert request(peer, number, 9) == []
    peer.connection.set_writable(True)
    assert kinds(peer.hear()) == ["next", "next", "next", "complete"]


@pytest.mark.conformance("ditto.search.not-found")
def test_an_unknown_subscription_is_404(world: World) -> None:
    peer = things(world, 1)
    history = peer.subscribe("ns:000")
    assert failure(request(peer, history)) == NOT_FOUND
    assert failure(peer.say(search("cancel", {"subscriptionId": "x"}))) == NOT_FOUND


@pytest.mark.conformance("ditto.search.demand")
def test_a_demand_below_one_ends_it(world: World) -> None:
    peer = things(world, 1)
    assert failure(request(peer, subscribe(peer), 0)) == PROTOCOL_ERROR


@pytest.mark.conformance("ditto.search.timeout")
def test_silence_ends_it(world: World) -> None:
    peer = world.connect()
    subscribe(peer)
    world.advance(IDLE_SECONDS)
    assert failure(peer.hear()) == (408, "thing-search:subscription.timeout")


# -- what is found -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        row("search.eq", 'eq(attributes/kind,"lamp")', "a"),
        row("search.ne", 'ne(attributes/kind,"lamp")', "b"),
        row("search.gt", "gt(attributes/n,1)", "bc"),
        row("search.ge", "ge(attributes/n,2)", "bc"),
        row("search.lt", "lt(attributes/n,2)", "a"),
        row("search.le", "le(attributes/n,2)", "ab"),
        row("search.in", "in(attributes/n,1,3,7)", "ac"),
        row("search.like", 'like(attributes/kind,"l?m*")', "a"),
        row("search.ilike", 'ilike(attributes/kind,"*AMP")', "a"),
        row("search.exists", "exists(features/*/properties/on)", "a"),
        row("search.empty", "empty(attributes/kind)", "c"),
        row("search.and", "and(gt(attributes/n,1),lt(attributes/n,3))", "b"),
        row("search.or", "or(lt(attributes/n,2),gt(attributes/n,2))", "ac"),
        row("search.not", 'not(eq(attributes/kind,"lamp"))', "bc"),
        row("search.array", 'eq(attributes/tags,"x")', "b"),
        row("search.special", 'and(eq(_revision,1),lt(_modified,time:now),like(thingId,"ns:*"))', "abc"),
    ],
)
def test_a_filter_finds_what_matches(world: World, filter: str, expected: str) -> None:
    peer = world.connect()
    for name, value in {
        "a": {"attributes": {"kind": "lamp", "n": 1}, "features": {"f": {"properties": {"on": True}}}},
        "b": {"attributes": {"kind": "door", "n": 2, "tags": ["x", 1]}},
        "c": {"attributes": {"n": 3}},
    }.items():
        assert peer.command("create", value=value, id=f"ns:{name}")["status"] == 201
    assert found(peer, filter=filter) == [f"ns:{name}" for name in expected]


@pytest.mark.conformance("ditto.search.sort")
def test_results_are_sorted_and_by_id_without_saying_so(world: World) -> None:
    peer = things(world, 4)
    assert found(peer) == ["ns:000", "ns:001", "ns:002", "ns:003"]
    ordered = ["ns:003", "ns:001", "ns:002", "ns:000"]
    assert found(peer, options="sort(-attributes/counter,-thingId),size(3)") == ordered


@pytest.mark.conformance("ditto.search.size")
def test_a_page_has_25_things_unless_it_says_another_size(world: World) -> None:
    peer = things(world, DEFAULT_SIZE + 1)
    assert [len(page) for page in pages(request(peer, subscribe(peer), 9))] == [DEFAULT_SIZE, 1]
    assert failure(request(peer, subscribe(peer, options=f"size({MAX_SIZE + 1})"))) == OPTION


@pytest.mark.conformance("ditto.search.fields")
def test_fields_select_what_is_sent(world: World) -> None:
    peer = things(world, 1)
    message, _ = request(peer, subscribe(peer, fields="attributes,_revision"))
    assert message["value"]["items"] == [{"attributes": {"counter": 0}, "_revision": 1}]


@pytest.mark.conformance("ditto.search.namespaces")
def test_namespaces_restrict_it(world: World) -> None:
    for id in ("a:x", "b:x", "ab:x"):
        world.make(id)
    assert found(world.connect(), namespaces=["a", "c"]) == ["a:x"]


@pytest.mark.conformance("ditto.search.permission")
def test_only_what_may_be_read_is_found_and_hidden_values_look_missing(world: World) -> None:
    shared(world, all=ALL_OF_IT, some={"thing:/": READ, "thing:/attributes/x": NO_READ})
    assert found(world.connect("all"), filter="eq(attributes/x,1)") == ["ns:thing"]
    some = world.connect("some")
    assert found(some, filter="eq(attributes/x,1)") == []
    assert found(some, filter="not(eq(attributes/x,1))") == ["ns:thing"]
    assert found(world.connect("nobody")) == []


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        row("search.bad.filter", {"filter": "eq(attributes/x"}, (400, "rql.expression.invalid")),
        row("search.bad.option", {"options": "first(3)"}, OPTION),
        row("search.bad.limit", {"options": "limit(0,3)"}, OPTION),
        row("search.bad.cursor", {"options": "cursor(x)"}, OPTION),
        row("search.bad.namespace", {"namespaces": ["1"]}, (400, "thing-search:search.namespaces.invalid")),
    ],
)
def test_a_search_that_cannot_be_read_fails_at_the_first_request(
    world: World, value: Message, expected: tuple[int, str]
) -> None:
    peer = world.connect()
    assert failure(request(peer, subscribe(peer, **value))) == expected


@pytest.mark.parametrize(
    ("message", "code"),
    [
        row("search.bad.topic", {"topic": "ns/x/things/twin/search/subscribe"}, "protocoladapter:unknown.topicpath"),
        row("search.bad.action", search("next"), "protocoladapter:unknown.topicpath"),
        row("search.bad.type", search("subscribe", {"filter": 7}), "json.invalid"),
        row("search.bad.id", search("request", {"demand": 1}), "json.field.missing"),
    ],
)
def test_a_message_that_is_none_is_an_error_response(world: World, message: Message, code: str) -> None:
    assert refusal(world.connect().say({"path": "/", **message})) == (400, code)


# -- HTTP --------------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.search.http")
def test_a_search_by_http_has_items_and_a_cursor(alice: httpx.Client) -> None:
    for number in range(3):
        assert alice.put(f"/things/search:{number}", json={"attributes": {"n": number}}).status_code == 201
    asked = {"filter": "ge(attributes/n,0)", "namespaces": "search", "fields": "thingId", "option": "size(2)"}
    answer = alice.get("/search/things", params=asked).json()
    assert answer["items"] == [{"thingId": "search:0"}, {"thingId": "search:1"}]
    asked["option"] = f"size(2),cursor({answer['cursor']})"
    assert alice.get("/search/things", params=asked).json() == {"items": [{"thingId": "search:2"}]}


@pytest.mark.conformance("ditto.search.http.count")
def test_a_count_by_http_is_a_number(alice: httpx.Client) -> None:
    assert alice.put("/things/searchcount:1", json={}).status_code == 201
    assert alice.get("/search/things/count", params={"namespaces": "searchcount"}).json() == 1


@pytest.mark.conformance("ditto.search.http.bad")
def test_a_bad_search_by_http_is_400(alice: httpx.Client, site: Site) -> None:
    answer = alice.get("/search/things", params={"filter": "eq("})
    assert (answer.status_code, answer.json()["error"]) == (400, "rql.expression.invalid")
    assert site.client().get("/search/things").status_code == 401
