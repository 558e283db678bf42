"""Searches over HTTP, with the index, against a whole server."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.store.search_index import FILE
from tests.doors.ditto.site import Site, entry, policy

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bob(site: Site) -> httpx.Client:
    return site.of("bob")


@pytest.fixture
def space() -> str:
    """A namespace that nobody else has."""
    return f"search{next(numbers)}"


def make(client: httpx.Client, space: str, *documents: dict[str, Any]) -> None:
    for number, document in enumerate(documents):
        assert client.put(f"/things/{space}:{number}", json=document).status_code == 201


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["thingId"].partition(":")[2] for item in answer.json()["items"]]


def find(client: httpx.Client, space: str, filter: str = "", option: str = "", **more: str) -> list[str]:
    parameters = {"namespaces": space, "filter": filter, "option": option, **more}
    return names(client.get("/search/things", params={name: value for name, value in parameters.items() if value}))


def refused(answer: httpx.Response) -> tuple[int, str]:
    assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()["error"]


def test_a_change_is_found_as_soon_as_it_is_answered(alice: httpx.Client, space: str) -> None:
    for number in range(20):
        value = f"{space}-{number}"
        assert alice.put(f"/things/{space}:x", json={"attributes": {"a": value}}).status_code in (201, 204)
        assert find(alice, space, f'eq(attributes/a,"{value}")') == ["x"]
        assert find(alice, space, f'eq(attributes/a,"{space}-{number - 1}")') == []
    alice.delete(f"/things/{space}:x")
    assert find(alice, space) == []


def test_pages_follow_one_another_by_their_cursors(alice: httpx.Client, space: str) -> None:
    make(alice, space, *[{"attributes": {"n": number % 4}} for number in range(10)])
    for sort in ("", "sort(-thingId)", "sort(+attributes/n)", "sort(-attributes/n,-thingId)"):
        whole = find(alice, space, option=sort)
        assert len(whole) == 10
        read: list[str] = []
        option = ",".join([part for part in (sort, "size(3)") if part])
        while True:
            answer = alice.get("/search/things", params={"namespaces": space, "option": option})
            read += names(answer)
            if "cursor" not in answer.json():
                break
            option = ",".join([part for part in (sort, "size(3)", f"cursor({answer.json()['cursor']})") if part])
        assert read == whole
    assert find(alice, space, option="sort(-attributes/n,-thingId)") == list("7362951840")


def test_a_page_that_ends_with_the_last_result_has_no_cursor(alice: httpx.Client, space: str) -> None:
    make(alice, space, {}, {}, {})
    answer = alice.get("/search/things", params={"namespaces": space, "option": "size(3)"})
    assert len(names(answer)) == 3
    assert "cursor" not in answer.json()


def test_limit_skips_and_tells_where_the_next_page_begins(alice: httpx.Client, space: str) -> None:
    make(alice, space, {}, {}, {}, {}, {})
    answer = alice.get("/search/things", params={"namespaces": space, "option": "limit(1,2)"})
    assert (names(answer), answer.json()["nextPageOffset"]) == (["1", "2"], 3)
    assert (
        "nextPageOffset" not in alice.get("/search/things", params={"namespaces": space, "option": "limit(3,2)"}).json()
    )


def test_a_form_is_as_good_as_parameters(alice: httpx.Client, space: str) -> None:
    make(alice, space, {"attributes": {"a": 1}}, {"attributes": {"a": 2}})
    form = {"namespaces": space, "filter": "eq(attributes/a,2)", "fields": "thingId", "option": "sort(+thingId)"}
    assert alice.post("/search/things", data=form).json() == {"items": [{"thingId": f"{space}:1"}]}
    assert alice.post("/search/things/count", data=form).json() == 1
    assert refused(alice.post("/search/things", json=form)) == (415, "mediatype.unsupported")
    assert alice.post("/search/things", content=b"filter=%ff", headers={"content-type": FORM}).status_code == 400


FORM = "application/x-www-form-urlencoded"


def test_count_counts(alice: httpx.Client, space: str) -> None:
    make(alice, space, *[{"attributes": {"n": number}} for number in range(5)])
    answer = alice.get("/search/things/count", params={"namespaces": space, "filter": "ge(attributes/n,2)"})
    assert (answer.status_code, answer.json()) == (200, 3)


def test_others_find_what_a_policy_lets_them_read(alice: httpx.Client, bob: httpx.Client, space: str) -> None:
    reader = {
        "subjects": {"nginx:bob": {"type": "t"}},
        "resources": {"thing:/attributes/open": {"grant": ["READ"], "revoke": []}},
    }
    hers = {"attributes": {"open": 1, "secret": 1}, "_policy": policy(READER=reader)}
    make(alice, space, hers, {"attributes": {"open": 1}})
    assert find(alice, space, "eq(attributes/open,1)") == ["0", "1"]
    assert find(bob, space, "eq(attributes/open,1)") == ["0"]
    assert find(bob, space, "exists(attributes/secret)") == []
    assert find(bob, space, "not(eq(attributes/secret,1))") == ["0"]
    items = bob.get("/search/things", params={"namespaces": space}).json()["items"]
    assert items == [{"thingId": f"{space}:0", "attributes": {"open": 1}}]
    # Granted and taken away: no restart, and no wait.
    assert alice.put(f"/policies/{space}:1/entries/B", json=entry("bob", thing=["READ"])).status_code == 201
    assert alice.delete(f"/policies/{space}:0/entries/READER").status_code == 204
    while find(bob, space) != ["1"]:
        assert "0" not in find(bob, space)


def test_bad_searches_are_answered_in_the_form_of_ditto(alice: httpx.Client) -> None:
    for parameters, code in (
        ({"filter": "eq(attributes/a"}, "rql.expression.invalid"),
        ({"filter": "nonsense"}, "rql.expression.invalid"),
        ({"option": "size(0)"}, "thing-search:search.option.invalid"),
        ({"option": "cursor(nonsense)"}, "thing-search:search.option.invalid"),
        ({"namespaces": "1x"}, "thing-search:search.namespaces.invalid"),
        ({"fields": "a(b"}, "json.fieldselector.invalid"),
        ({"condition": "eq(attributes/a,1)"}, "header.notsupported"),
    ):
        answer = alice.get("/search/things", params=parameters)
        assert refused(answer) == (400, code), parameters
        assert answer.json()["description"]


def test_an_index_that_is_lost_or_late_is_filled_at_the_next_start(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        make(site.of("alice"), "ns", {"attributes": {"a": 1}}, {"attributes": {"a": 2}}, {})
    damages: list[Callable[[], None]] = [
        lambda: None,
        lambda: (tmp_path / "data" / FILE).unlink(),
        lambda: _forget(tmp_path / "data" / FILE),
    ]
    for damage in damages:
        damage()
        with Site(tmp_path) as site:
            alice = site.of("alice")
            # Right from the start, whether or not the index is ready.
            assert find(alice, "ns", "gt(attributes/a,1)") == ["1"]
            server = site.server
            assert server is not None
            figures = httpx.get(f"http://{site.host}:{site.api_port}/metrics", auth=None).text
            assert "penstock_ditto_search_lag_seconds" in figures


def _forget(path: Path) -> None:
    """As if the last transactions had never been."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM search_values WHERE thing = 'ns:1'")
        connection.execute("UPDATE search_things SET revision = 0 WHERE thing = 'ns:1'")
    connection.close()
