"""Items as things where some fields are not for everybody: bob may see all items, and no field called `secret`."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from penstock.doors.ditto import item_events
from penstock.doors.ditto.items import RECENT
from tests.doors.ditto.site import CONFIGURATION, EVENTS, Site
from tests.doors.ditto.test_sse import Following
from tests.doors.ditto.test_websocket import basic, client
from tests.doors.ditto.world import failure, kinds, refusal, revisions, streaming

METADATA = """
from penstock.adapters import Reason, Refusal
from penstock.adapters.access import AccessMetadata


class Secretive(AccessMetadata):
    def fields(self, session, data_adapter, group, schema):
        fields = super().fields(session, data_adapter, group, schema)
        if "secret" in fields and session.user != "alice":
            raise Refusal(Reason.SCHEMA, "This field is not for everybody")
        return fields

    def customizer(self, session, data_adapter, item, mode):
        return dict if item == "custom" and session.user != "alice" else None
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("site")
    (directory / "secretive.py").write_text(METADATA)
    configuration = CONFIGURATION.replace('adapter = "access"', 'adapter = "secretive:Secretive"')
    with Site(directory, configuration=configuration.replace('items = ["public*"]', 'items = ["*"]')) as running:
        yield running


@pytest.fixture
def bob(site: Site) -> httpx.Client:
    return site.of("bob")


def feed(site: Site, item: str, *updates: str) -> str:
    """Updates of an item, and the thing that it is."""
    site.feed("".join(f'{{"item":"{item}","fields":{fields}}}\n' for fields in updates))
    return f"SITE.SENSORS:{item}"


def test_a_thing_is_read_by_whom_all_fields_of_the_item_would_be_granted(
    site: Site, alice: httpx.Client, bob: httpx.Client
) -> None:
    path = "/things/" + feed(site, "now", '{"x":"1"}')
    assert bob.get(path).status_code == 200
    feed(site, "now", '{"secret":"2"}')
    assert (bob.get(path).status_code, alice.get(path).status_code) == (404, 200)


def test_an_item_whose_events_are_changed_for_a_user_is_not_shown_to_that_user(
    site: Site, alice: httpx.Client, bob: httpx.Client
) -> None:
    path = "/things/" + feed(site, "custom", '{"x":"1"}')
    assert (bob.get(path).status_code, alice.get(path).status_code) == (404, 200)


def test_a_field_that_is_gone_now_is_still_not_shown_as_it_was(
    site: Site, alice: httpx.Client, bob: httpx.Client
) -> None:
    path = "/things/" + feed(site, "gone", '{"x":"1"}', '{"secret":"2"}', '{"secret":null}')
    assert bob.get(path).status_code == 200
    assert bob.get(path, params={"at-historical-revision": 1}).status_code == 200
    refused = bob.get(path, params={"at-historical-revision": 2})
    assert (refused.status_code, refused.json()["error"]) == (404, "things:thing.notfound")
    assert alice.get(path, params={"at-historical-revision": 2}).json()["attributes"]["secret"] == "2"


def test_a_history_ends_where_a_field_comes_that_its_reader_may_not_see(site: Site) -> None:
    plain = ['{"x":"2"}'] * RECENT
    id = feed(site, "past", *plain, '{"secret":"2"}', *plain)
    with client(site, basic("bob")) as bob, client(site, basic("alice")) as alice:
        for each in (alice, bob):
            assert each.ask(streaming(id, "subscribeForPersistedEvents", {}))["value"]["subscriptionId"] == "0"
            each.request("0", 2 * RECENT + 2, id)
        whole = [alice.hear() for _ in range(2 * RECENT + 2)]
        assert revisions(whole[:-1]) == list(range(1, 2 * RECENT + 2))
        # Both are in one batch, of which nothing is sent then.
        assert failure([bob.hear()]) == (404, "things:thing.notfound")
        bob.ask(streaming(id, "subscribeForPersistedEvents", {"fromHistoricalRevision": RECENT + 2}))
        bob.request("1", RECENT + 1, id)
        assert kinds([bob.hear() for _ in range(RECENT + 1)])[-2:] == ["next", "complete"]


def test_server_sent_events_say_so_too(site: Site, bob: httpx.Client) -> None:
    id = feed(site, "events", '{"secret":"2"}', *['{"x":"2"}'] * RECENT)
    answer = bob.get(f"/things/{id}", params={"from-historical-revision": 1}, headers=EVENTS)
    assert answer.text.startswith('event:failed\ndata:{"status":404,')


def test_live_events_end_where_a_field_comes_that_their_reader_may_not_see(site: Site) -> None:
    with client(site, basic("bob")) as bob, client(site, basic("alice")) as alice:
        for each in (alice, bob):
            each.ask("START-SEND-EVENTS?namespaces=SITE.SENSORS")
        feed(site, "live", '{"x":"1"}')
        assert [each.hear()["revision"] for each in (alice, bob)] == [1, 1]
        feed(site, "live", '{"x":"2"}', '{"x":"3","more":"1"}')
        assert [[each.hear()["revision"] for _ in range(2)] for each in (alice, bob)] == [[2, 3], [2, 3]]
        feed(site, "live", '{"secret":"4"}', '{"x":"5"}')
        assert [alice.hear()["revision"] for _ in range(2)] == [4, 5]
        feed(site, "other", '{"x":"6"}')
        assert bob.hear()["topic"] == "SITE.SENSORS/other/things/twin/events/created"


def test_events_that_come_before_it_is_known_who_may_read_them_are_told_when_they_are_too_many(
    site: Site, alice: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_events, "MAX_UNDECIDED", 3)
    following = Following(alice, "/things", namespaces="SITE.SENSORS", fields="_revision")
    with client(site, basic("alice")) as socket:
        socket.ask("START-SEND-EVENTS?namespaces=SITE.SENSORS")
        feed(site, "many", *['{"x":"1"}'] * 10)
        assert [socket.hear()["revision"] for _ in range(3)] == [1, 2, 3]
        complaint = socket.hear()
        assert refusal([complaint]) == (429, "too.many.requests")
        assert complaint["value"]["message"].startswith("7 events were lost here")
    lines = [following.next() for _ in range(5)]
    assert lines == [*[f'data:{{"_revision":{number}}}' for number in (1, 2, 3)], "event:lost", 'data:{"lost":7}']
    following.close()
