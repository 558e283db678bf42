"""Administration of a hub whose clients are at edges: lists, actions, blocks and drains reach all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic, sleep

import pytest

from penstock.cluster.ports import Bystander
from penstock.kernel.identity import public
from penstock.services.cluster import clients as clients_module
from penstock.services.cluster.administration import ADMINISTER
from tests.conformance.phrases import create
from tests.services.cluster.site import ClusterSite
from tests.support.raw import Stream, params


def until(condition: object, what: str) -> None:
    deadline = monotonic() + 20
    assert callable(condition)
    while not condition():
        assert monotonic() < deadline, f"still not: {what}"
        sleep(0.01)


def subscribe(site: ClusterSite, edge: str, stream: Stream, group: str = "x", **more: object) -> None:
    asked = params(
        session=stream.session, reqId=1, op="add", subId=1, group=group, schema="x", mode="MERGE", data_adapter="HAND"
    )
    assert site.at(edge).request("control", "&".join([asked, *([params(**more)] if more else [])])) == ["REQOK,1"]
    stream.read_until("CONF")


@pytest.fixture
def streams(site: ClusterSite) -> Iterator[list[Stream]]:
    """Two sessions at one edge and one at the other."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(site.at(edge).stream(user=f"user{number}"))
            for number, edge in enumerate(("w1", "w1", "w2"))
        ]


def names(site: ClusterSite, query: str = "") -> list[str]:
    return [each["session"] for each in site.ask("GET", f"/sessions{query}").body["sessions"]]


# -- lists -------------------------------------------------------------------------------------------------------------


def test_sessions_of_all_edges_are_listed_in_parts(site: ClusterSite, streams: list[Stream]) -> None:
    everybody = [public(stream.session) for stream in streams]
    assert site.ask("GET", "/sessions").body["total"] == 3
    assert names(site) == everybody
    for offset in range(4):
        for limit in range(1, 4):
            assert names(site, f"?offset={offset}&limit={limit}") == everybody[offset : offset + limit]
            assert site.ask("GET", f"/sessions?offset={offset}&limit={limit}").body["total"] == 3
    assert names(site, "?user=user2") == everybody[2:]
    assert names(site, "?adapter_set=WELCOME") == []


def test_a_session_is_shown_wherever_it_is(site: ClusterSite, streams: list[Stream]) -> None:
    subscribe(site, "w2", streams[2], "x y")
    found = site.ask("GET", f"/sessions/{public(streams[2].session)}").body
    assert (found["user"], found["subscriptions"], found["items"]) == ("user2", 1, 2)
    assert found["subscribed"][0]["names"] == ["x", "y"]
    answer = site.ask("GET", "/sessions/S0123456789abcdef")
    assert (answer.status, answer.error) == (404, "session S0123456789abcdef: no such session is open")


def test_items_are_listed_once_with_the_subscribers_of_all_edges(site: ClusterSite, streams: list[Stream]) -> None:
    for stream, edge in zip(streams, ("w1", "w1", "w2"), strict=True):
        subscribe(site, edge, stream, "x" if edge == "w1" else "x z")
    until(lambda: site.ask("GET", "/items?data_adapter=HAND").body["total"] == 2, "both items")
    found = site.ask("GET", "/items?data_adapter=HAND").body["items"]
    assert {each["item"]: each["subscribers"] for each in found} == {"x": 3, "z": 1}


def test_an_item_with_a_selector_has_its_own_name_in_lists(site: ClusterSite, streams: list[Stream]) -> None:
    subscribe(site, "w1", streams[0], selector="odd")
    until(lambda: site.ask("GET", "/items?data_adapter=HAND").body["total"] == 1, "the item")
    (item,) = site.ask("GET", "/items?data_adapter=HAND").body["items"]
    assert (item["item"], item["subscribers"]) == ("x", 1)
    found = site.ask("GET", f"/sessions/{public(streams[0].session)}").body
    assert found["subscribed"][0]["names"] == ["x"]


def test_an_edge_that_does_not_answer_is_left_out_of_lists_and_named(
    site: ClusterSite, streams: list[Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients_module, "PATIENCE", 0.2)
    del site.edges["w2"].link.calls.methods[ADMINISTER]
    assert names(site) == [public(stream.session) for stream in streams[:2]]
    answer = site.ask("GET", f"/sessions/{public(streams[2].session)}")
    assert answer.status == 404
    assert answer.error.endswith("no such session is open, unless it is at w2, which does not answer")
    assert site.ask("GET", f"/sessions/{public(streams[1].session)}").status == 200


def test_tables_of_monitoring_have_the_rows_of_all_edges(site: ClusterSite, streams: list[Stream]) -> None:
    for stream, edge in zip(streams, ("w1", "w1", "w2"), strict=True):
        subscribe(site, edge, stream)

    def rows(name: str) -> dict[str, dict[str, str | None]]:
        table = site.server.steering.clients.tables()[name]()  # type: ignore[attr-defined]
        return dict(site.call(lambda: list(table())))

    until(lambda: len(rows("sessions")) == 3, "all sessions")
    found = rows("sessions")
    assert {row["user"] for row in found.values()} == {"user0", "user1", "user2"}
    until(lambda: rows("items").get("TEST/HAND/x", {}).get("subscribers") == "3", "all subscribers")


# -- actions -----------------------------------------------------------------------------------------------------------


def test_a_session_is_ended_wherever_it_is(site: ClusterSite, streams: list[Stream]) -> None:
    name = public(streams[2].session)
    assert site.ask("DELETE", f"/sessions/{name}", {"code": -5, "message": "Enough"}).status == 204
    assert streams[2].read_line() == "END,-5,Enough"
    assert names(site) == [public(stream.session) for stream in streams[:2]]
    assert site.ask("DELETE", f"/sessions/{name}").status == 404
    until(lambda: site.ask("GET", "/drain").body["sessions"] == 2, "the hub knows")


def test_limits_are_set_and_reset_wherever_a_session_is(site: ClusterSite, streams: list[Stream]) -> None:
    path = f"/sessions/{public(streams[2].session)}"
    subscribe(site, "w2", streams[2])
    found = site.ask("PUT", f"{path}/bandwidth", {"max_kbps": 12.5}).body
    assert (found["max_kbps"], found["is_ruled"]) == (12.5, True)
    found = site.ask("DELETE", f"{path}/bandwidth").body
    assert (found["max_kbps"], found["is_ruled"]) == (None, False)
    found = site.ask("PUT", f"{path}/subscriptions/1/frequency", {"max_per_second": 3}).body
    assert (found["max_per_second"], found["is_ruled"]) == (3, True)
    assert streams[2].read_until("CONF")[-1] == "CONF,1,3.0,filtered"
    assert site.ask("DELETE", f"{path}/subscriptions/1/frequency").body["is_ruled"] is False
    assert site.ask("DELETE", f"{path}/subscriptions/1").status == 204
    streams[2].read_until("UNSUB")
    answer = site.ask("DELETE", f"{path}/subscriptions/1")
    assert (answer.status, "not found" in answer.error) == (404, True)
    (edge,) = [edge for name, edge in site.edges.items() if name == "w2"]
    guest = site.hub.guests.find_session(streams[2].session)
    assert guest is not None
    until(lambda: not guest.subscriptions, "the hub knows")
    assert len(edge.kernel.sessions) == 1


# -- who is let in -----------------------------------------------------------------------------------------------------


def is_let_in(site: ClusterSite, edge: str, user: str) -> bool:
    (line, *_) = site.at(edge).request("create_session", f"{create(polling=True)}&{params(user=user)}")
    assert line.startswith(("CONOK,", "CONERR,10,"))
    return line.startswith("CONOK,")


def test_a_block_is_for_all_edges_also_for_those_that_come_later(site: ClusterSite) -> None:
    site.ask("PUT", "/blocks", {"scope": "user", "name": "eve"})
    for edge in ("w1", "w2"):
        until(lambda edge=edge: not is_let_in(site, edge, "eve"), "blocked")
        assert is_let_in(site, edge, "bob")
    site.run(site.start_edge("w3"))
    until(lambda: not is_let_in(site, "w3", "eve"), "blocked at the new one")
    site.ask("DELETE", "/blocks?scope=user&name=eve")
    for edge in ("w1", "w2", "w3"):
        until(lambda edge=edge: is_let_in(site, edge, "eve"), "let in again")


def test_a_drain_is_for_all_edges_and_over_when_none_has_a_session(site: ClusterSite, streams: list[Stream]) -> None:
    state = site.ask("POST", "/drain").body
    assert (state["draining"], state["sessions"]) == (True, 3)
    for edge in ("w1", "w2"):
        until(lambda edge=edge: site.edges[edge].gate.draining, "the edge drains")
    # Sessions go on until they are ended.
    site.ask("POST", "/drain", {"seconds": 0.3})
    for stream in streams:
        assert stream.read_line() == "END,48,The server is shutting down"
    until(lambda: site.ask("GET", "/drain").body["sessions"] == 0, "all gone")
    site.run(site.start_edge("w3"))
    until(lambda: site.edges["w3"].gate.draining, "a new edge drains as well")
    assert site.ask("DELETE", "/drain").body["draining"] is False
    for edge in ("w1", "w2", "w3"):
        until(lambda edge=edge: not site.edges[edge].gate.draining, "let in again")


# -- one node ----------------------------------------------------------------------------------------------------------


def drained(site: ClusterSite) -> list[str]:
    return [name for name, edge in site.edges.items() if edge.gate.draining]


def test_one_edge_is_drained_and_the_others_go_on(site: ClusterSite, streams: list[Stream]) -> None:
    state = site.ask("POST", "/drain", {"node": "w1", "seconds": 0.3}).body
    assert (state["node"], state["draining"], state["stop"], state["sessions"]) == ("w1", True, False, 2)
    assert state["nodes"] == ["w1"]
    assert 0 <= state["seconds_left"] <= 0.3
    for stream in streams[:2]:
        assert stream.read_line() == "END,48,The server is shutting down"
    until(lambda: site.ask("GET", "/drain?node=w1").body["sessions"] == 0, "all gone")
    assert drained(site) == ["w1"]
    whole = site.ask("GET", "/drain").body
    assert (whole["draining"], whole["sessions"], whole["nodes"]) == (False, 1, ["w1"])
    assert site.ask("GET", "/drain?node=w2").body["draining"] is False
    assert is_let_in(site, "w2", "ann")
    # A block changes nothing about it, and an edge that comes is not drained.
    site.ask("PUT", "/blocks", {"scope": "user", "name": "eve"})
    site.run(site.start_edge("w3"))
    until(lambda: not is_let_in(site, "w3", "eve"), "blocked at the new one")
    assert drained(site) == ["w1"]
    site.sample()
    states = {each["name"]: each["state"] for each in site.ask("GET", "/cluster").body["nodes"]}
    assert states == {"hub": "up", "w1": "draining", "w2": "up", "w3": "up"}
    assert site.ask("DELETE", "/drain?node=w1").body["draining"] is False
    until(lambda: not drained(site), "let in again")
    answer = site.ask("DELETE", "/drain?node=w1")
    assert (answer.status, answer.error) == (409, "w1 is not draining by itself")


def test_a_node_without_clients_is_refused_with_the_names_of_those_that_have_some(site: ClusterSite) -> None:
    for name in ("hub", "w9"):
        told = f"node {name}: it is not one of the nodes with clients; those are w1, w2"
        for answer in (
            site.ask("POST", "/drain", {"node": name}),
            site.ask("GET", f"/drain?node={name}"),
            site.ask("DELETE", f"/drain?node={name}"),
        ):
            assert (answer.status, answer.error) == (404, told)


def test_the_drain_of_the_whole_server_takes_the_place_of_those_of_nodes(site: ClusterSite) -> None:
    site.ask("POST", "/drain", {"node": "w1"})
    until(lambda: drained(site) == ["w1"], "one drains")
    found = site.ask("POST", "/drain").body
    assert (found["draining"], found["nodes"]) == (True, [])
    until(lambda: drained(site) == ["w1", "w2"], "all drain")
    answer = site.ask("POST", "/drain", {"node": "w2"})
    assert (answer.status, answer.error) == (409, "the whole server is draining")
    assert site.ask("DELETE", "/drain").status == 200
    until(lambda: not drained(site), "let in again")


def test_a_drain_ends_with_the_process_that_it_is_for(site: ClusterSite) -> None:
    stopped: list[str] = []
    site.edges["w1"].stop_by(lambda: stopped.append("w1"))
    site.ask("POST", "/drain", {"node": "w1", "stop": True, "seconds": 0})
    until(lambda: stopped == ["w1"], "it stops")
    site.run(site.stop_edge("w1"))
    until(lambda: site.ask("GET", "/drain").body["nodes"] == [], "it is gone")
    site.run(site.start_edge("w1"))
    assert is_let_in(site, "w1", "ann")
    assert site.ask("GET", "/drain").body["nodes"] == []


# -- what the server is made of ----------------------------------------------------------------------------------------


def test_the_status_names_hub_and_edges(site: ClusterSite, streams: list[Stream]) -> None:
    subscribe(site, "w1", streams[0])
    site.sample()
    found = site.ask("GET", "/cluster").body
    assert found["epoch"] == "1"
    shown = [(each["name"], each["role"], each["sessions"], each["items"], each["answers"]) for each in found["nodes"]]
    assert shown[1:] == [("w1", "edge", 2, 1, True), ("w2", "edge", 1, 0, True)]
    assert shown[0][:3] == ("hub", "hub", 0)
    assert all(each["lag_millis"] > 0 for each in found["nodes"][1:])
    assert json.dumps(found)
    site.run(site.stop_edge("w2"))
    assert [each["name"] for each in site.ask("GET", "/cluster").body["nodes"]] == ["hub", "w1"]


def test_the_status_names_hubs_that_stand_by_and_workers_that_are_given_up(site: ClusterSite) -> None:
    site.bystanders = [
        Bystander("h2", "h2", "standby", "up", "1.0", 5.0),
        Bystander("w3", "penstock-w3", "edge", "given up", "1.0", 7.0),
    ]
    *_, standby, worker = site.ask("GET", "/cluster").body["nodes"]
    nothing = {"sessions": 0, "items": 0, "lag_millis": None, "version": "1.0"}
    told = {"name": "h2", "node": "h2", "role": "standby", "state": "up", "answers": True, "since_ms": 5_000}
    assert standby == told | nothing
    told = {"name": "w3", "node": "penstock-w3", "role": "edge", "state": "given up", "answers": False}
    assert worker == told | nothing | {"since_ms": 7_000}
    # They have no clients that could go elsewhere.
    assert site.ask("POST", "/drain", {"node": "w3"}).error.endswith("those are w1, w2")
