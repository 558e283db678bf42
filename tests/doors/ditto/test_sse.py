"""Server-sent events: histories that end, and live events that do not."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.doors.ditto import sse
from penstock.doors.ditto.past import PastEvents
from penstock.doors.ditto.waiting_events import MAX_WAITING_EVENTS, Losses, WaitingEvents
from tests.doors.ditto.site import EVENTS, MERGE, Site, entry, policy

numbers = itertools.count(1)


@pytest.fixture
def thing(alice: httpx.Client) -> str:
    """A thing of six revisions: its attribute n was 0 to 4, then it was merged."""
    path = f"/things/ns:thing{next(numbers)}"
    alice.put(path, json={"attributes": {"n": 0}})
    for number in range(1, 5):
        alice.put(f"{path}/attributes/n", json=number)
    alice.patch(path, content=b'{"attributes":{"n":null,"end":true}}', headers=MERGE)
    return path


def events(answer: httpx.Response) -> list[Any]:
    """The data of all events of a stream that has ended, without those that say nothing."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    texts = [line.removeprefix("data:") for line in answer.text.split("\n\n") if line]
    return [json.loads(text) for text in texts if text]


def history(client: httpx.Client, path: str, **parameters: object) -> list[Any]:
    given = {name.replace("_", "-"): str(value) for name, value in parameters.items()}
    return events(client.get(path, params=given, headers=EVENTS))


def test_the_history_of_a_thing_is_streamed_and_ends(alice: httpx.Client, thing: str) -> None:
    found = history(alice, thing, from_historical_revision=1)
    assert [event["_revision"] for event in found] == [1, 2, 3, 4, 5, 6]
    assert found[0]["attributes"] == {"n": 0}
    assert found[0]["policyId"] == found[0]["thingId"] == thing.rpartition("/")[2]
    assert found[3]["attributes"] == {"n": 3}
    assert found[5]["attributes"] == {"n": None, "end": True}
    assert all(event["_modified"].endswith("Z") for event in found)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, None, [1, 2, 3, 4, 5, 6]),
        (2, 4, [2, 3, 4]),
        (5, 99, [5, 6]),
        (-2, None, [5, 6]),
        (-3, -1, [4, 5]),
        (1, 0, [1, 2, 3, 4, 5, 6]),
        (4, 2, []),
        (7, None, []),
    ],
)
def test_revisions_are_inclusive_and_count_from_either_end(
    alice: httpx.Client, thing: str, first: int, last: int | None, expected: list[int]
) -> None:
    more = {} if last is None else {"to_historical_revision": last}
    found = history(alice, thing, from_historical_revision=first, **more)
    assert [event["_revision"] for event in found] == expected


def test_a_history_that_only_has_an_end_begins_with_the_first_event(alice: httpx.Client, thing: str) -> None:
    found = history(alice, thing, to_historical_revision=2)
    assert [event["_revision"] for event in found] == [1, 2]
    found = history(alice, thing, to_historical_timestamp=found[1]["_modified"])
    assert [event["_revision"] for event in found] == [1]


def test_times_exclude_both_ends(alice: httpx.Client, thing: str) -> None:
    times = [event["_modified"] for event in history(alice, thing, from_historical_revision=1)]
    found = history(alice, thing, from_historical_timestamp=times[0], to_historical_timestamp=times[4])
    assert [event["_revision"] for event in found] == [2, 3, 4]


def test_the_range_may_come_in_headers_and_revisions_win(alice: httpx.Client, thing: str) -> None:
    headers = {**EVENTS, "from-historical-revision": "6", "from-historical-timestamp": "2000-01-01T00:00:00Z"}
    assert [event["_revision"] for event in events(alice.get(thing, headers=headers))] == [6]


def test_fields_choose_what_is_shown_and_leave_out_what_has_none(alice: httpx.Client, thing: str) -> None:
    found = history(alice, thing, from_historical_revision=1, fields="attributes/end,_revision")
    assert found[-1] == {"attributes": {"end": True}, "_revision": 6}
    assert history(alice, thing, from_historical_revision=1, fields="attributes/end") == [{"attributes": {"end": True}}]
    (context,) = history(alice, thing, from_historical_revision=6, fields="_context")
    assert context["_context"]["topic"].endswith("/things/twin/events/merged")
    assert (context["_context"]["path"], context["_context"]["value"]["attributes"]["end"]) == ("/", True)


def test_a_part_is_streamed_as_its_bare_value(alice: httpx.Client, thing: str) -> None:
    assert history(alice, thing + "/attributes/n", from_historical_revision=1) == [0, 1, 2, 3, 4, None]


def test_a_filter_sees_what_each_event_tells(alice: httpx.Client, thing: str) -> None:
    found = history(alice, thing, from_historical_revision=1, filter="ge(attributes/n,3)")
    assert [event["_revision"] for event in found] == [4, 5]


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"from-historical-revision": "one"}, "header.invalid"),
        ({"from-historical-revision": "1", "to-historical-revision": "x"}, "header.invalid"),
        ({"from-historical-timestamp": "yesterday"}, "header.invalid"),
        ({"from-historical-revision": "1", "filter": "ge(attributes/n"}, "rql.expression.invalid"),
        ({"from-historical-revision": "1", "fields": "a("}, "json.fieldselector.invalid"),
        ({"filter": "nonsense"}, "rql.expression.invalid"),
    ],
)
def test_mistakes_are_told_before_a_stream_begins(
    alice: httpx.Client, thing: str, parameters: dict[str, str], code: str
) -> None:
    answer = alice.get(thing, params=parameters, headers=EVENTS)
    assert (answer.status_code, answer.json()["error"]) == (400, code)


def test_a_history_is_for_those_who_may_read_all(site: Site, alice: httpx.Client) -> None:
    path = f"/things/ns:thing{next(numbers)}"
    reader = entry("bob", thing=["READ"])
    alice.put(path, json={"_policy": policy(READER=reader)})
    bob, carol = site.of("bob"), site.of("carol")
    assert len(history(bob, path, from_historical_revision=1)) == 1
    assert carol.get(path, params={"from-historical-revision": 1}, headers=EVENTS).status_code == 404
    assert carol.get(path, headers=EVENTS).status_code == 404
    place = f"/policies/{path.rpartition('/')[2]}/entries/READER/resources/thing:/attributes/x"
    alice.put(place, json={"grant": [], "revoke": ["READ"]})
    refused = bob.get(path, params={"from-historical-revision": 1}, headers=EVENTS)
    assert (refused.status_code, refused.json()["error"]) == (404, "things:thing.notfound")


def test_only_those_get_a_stream_who_ask_for_one(alice: httpx.Client, thing: str) -> None:
    plain = alice.get(thing, params={"from-historical-revision": 1}, headers={"accept": "*/*"})
    assert plain.headers["content-type"] == "application/json"


def test_an_item_has_a_history_too(site: Site, alice: httpx.Client) -> None:
    site.feed("".join(f'{{"item":"meter","fields":{{"power":"{number}"}}}}\n' for number in range(3)))
    found = history(alice, "/things/SITE.SENSORS:meter", from_historical_revision=1)
    assert [event["attributes"]["power"] for event in found] == ["0", "1", "2"]
    assert [event["_revision"] for event in found] == [1, 2, 3]
    chosen = history(alice, "/things/SITE.SENSORS:meter", from_historical_revision=1, filter='eq(attributes/power,"1")')
    assert [event["_revision"] for event in chosen] == [2]
    hidden = site.of("bob").get("/things/SITE.SENSORS:meter", params={"from-historical-revision": 1}, headers=EVENTS)
    assert hidden.status_code == 404


def test_a_long_history_comes_whole_and_in_order(site: Site, alice: httpx.Client) -> None:
    site.feed("".join(f'{{"item":"long","fields":{{"n":"{number}"}}}}\n' for number in range(3_000)))
    found = history(alice, "/things/SITE.SENSORS:long/attributes/n", from_historical_revision=1)
    assert found == [str(number) for number in range(3_000)]


def test_a_history_that_cannot_be_read_on_says_so(
    site: Site, alice: httpx.Client, thing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(past: PastEvents) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(PastEvents, "next", broken)
    answer = alice.get(thing, params={"from-historical-revision": 1}, headers=EVENTS)
    kind, data = answer.text.strip().split("\n")
    assert kind == "event:failed"
    told = json.loads(data.removeprefix("data:"))
    assert (told["status"], told["error"]) == (500, "internalerror")
    assert "disk" not in data


# -- live --------------------------------------------------------------------------------------------------------------


class Following:
    """A live stream, read on demand."""

    def __init__(self, client: httpx.Client, path: str, **parameters: str) -> None:
        self._stream = client.stream("GET", path, params=parameters, headers=EVENTS)
        self._lines = self._stream.__enter__().iter_lines()
        # The first line says that the server listens.
        assert next(self._lines) == "data:"

    def next(self) -> str:
        """The next line that says something."""
        return next(line for line in self._lines if line not in ("", "data:"))

    def close(self) -> None:
        self._stream.__exit__(None, None, None)


def test_what_happens_to_a_thing_is_told_as_it_happens(alice: httpx.Client, thing: str) -> None:
    following = Following(alice, thing, fields="attributes,_revision")
    alice.put("/things/ns:other", json={})
    alice.put(f"{thing}/attributes/n", json=9)
    assert following.next() == 'data:{"attributes":{"n":9},"_revision":7}'
    following.close()


def test_what_happens_to_all_things_is_told_by_namespace_id_and_filter(site: Site, alice: httpx.Client) -> None:
    following = Following(alice, "/things", namespaces="live", filter="eq(attributes/a,1)", fields="thingId")
    alice.put("/things/other:a", json={"attributes": {"a": 1}})
    alice.put("/things/live:b", json={"attributes": {"a": 2}})
    site.of("bob").put("/things/live:c", json={"attributes": {"a": 1}})
    alice.put("/things/live:d", json={"attributes": {"a": 1}})
    assert following.next() == 'data:{"thingId":"live:d"}'
    following.close()


def test_what_happens_to_items_is_told_to_those_who_name_them(site: Site, alice: httpx.Client) -> None:
    site.feed('{"item":"public7","fields":{"x":"0"}}\n{"item":"private7","fields":{"x":"0"}}\n')
    one = Following(alice, "/things/SITE.SENSORS:public7", fields="attributes,_revision")
    named = Following(site.of("bob"), "/things", namespaces="SITE.SENSORS", fields="thingId,attributes")
    all = Following(alice, "/things", fields="thingId")
    site.feed('{"item":"private7","fields":{"x":"1"}}\n{"item":"public7","fields":{"x":"1"}}\n')
    assert one.next() == 'data:{"attributes":{"x":"1"},"_revision":2}'
    assert named.next() == 'data:{"thingId":"SITE.SENSORS:public7","attributes":{"x":"1"}}'
    alice.put("/things/ns:after", json={})
    assert all.next() == 'data:{"thingId":"ns:after"}'
    hidden = site.of("bob").get("/things/SITE.SENSORS:private7", headers=EVENTS)
    assert hidden.status_code == 404
    for following in (one, named, all):
        following.close()


def test_a_quiet_stream_shows_that_it_lives(alice: httpx.Client, thing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT", 0.01)
    with alice.stream("GET", thing, headers=EVENTS) as stream:
        lines = stream.iter_lines()
        assert [next(lines) for _ in range(6)] == ["data:", ""] * 3


def test_a_filter_of_live_events_may_ask_for_action_and_path(alice: httpx.Client, thing: str) -> None:
    wanted = 'and(eq(topic:action,"created"),like(resource:path,"/attributes/*"))'
    following = Following(alice, thing, filter=wanted, fields="attributes")
    alice.put(f"{thing}/attributes/n", json=9)
    alice.put(f"{thing}/attributes/n", json=10)
    alice.put(f"{thing}/attributes/m", json=11)
    assert following.next() == 'data:{"attributes":{"n":9}}'
    assert following.next() == 'data:{"attributes":{"m":11}}'
    following.close()


def test_a_slow_reader_is_told_how_much_was_lost() -> None:
    async def slow() -> bytes:
        queue = sse.StreamQueue(WaitingEvents(Losses(), "nginx:slow"))
        for number in range(MAX_WAITING_EVENTS + 3):
            queue.put(b"data:%d\n\n" % number)
        return await queue.take()

    lines = asyncio.run(slow()).decode().split("\n\n")
    assert lines[:MAX_WAITING_EVENTS] == [f"data:{number}" for number in range(MAX_WAITING_EVENTS)]
    assert lines[MAX_WAITING_EVENTS] == 'event:lost\ndata:{"lost":3}'


def test_live_streams_end_when_the_server_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    ended = threading.Event()
    with Site(tmp_path_factory.mktemp("stopping")) as site:
        following = Following(site.of("alice"), "/things")

        def read_all() -> None:
            for _ in following._lines:
                pass
            ended.set()

        threading.Thread(target=read_all, daemon=True).start()
        site.call(site._stop.set)
        assert ended.wait(10)


def test_a_reader_who_reads_nothing_does_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        site.feed("".join(f'{{"item":"long","fields":{{"text":"{"x" * 200_000}"}}}}\n' for _ in range(100)))
        client = site.of("alice")
        path = "/things/SITE.SENSORS:long"
        with client.stream("GET", path, params={"from-historical-revision": 1}, headers=EVENTS) as stream:
            assert stream.status_code == 200
            site.call(site._stop.set)
            site._thread.join(15)
            assert not site._thread.is_alive()
