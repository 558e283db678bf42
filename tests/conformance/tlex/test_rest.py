from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.doors.tlex.rest import ROUTES
from penstock.exchange.authorization import Role
from penstock.wire.tlex.datagrams import Bye, Reconnect
from tests.doors.tlex.site import Site


@pytest.mark.conformance("tlex.GET.tlcs")
def test_registered_controllers_of_the_domain_are_listed(site: Site) -> None:
    made = site.register("LISTED01")
    site.register("LISTED02", domain="other")
    listed = site.ask("GET", "/tlcs", Role.BROKER_SYSTEM).json()
    assert made in listed
    assert {each["domain"] for each in listed} == {"test"}
    assert list(made) == ["uuid", "identifier", "type", "domain", "account"]


@pytest.mark.conformance("tlex.GET.tlcs.role")
def test_controllers_themselves_may_not_list_controllers(site: Site) -> None:
    roles = (Role.BROKER_SYSTEM, Role.BROKER_ANALYST, Role.TLC_ADMIN, Role.DOMAIN_ADMIN)
    assert {site.ask("GET", "/tlcs", role).status_code for role in roles} == {200}
    assert site.ask("GET", "/tlcs", Role.TLC_SYSTEM).status_code == 403


@pytest.mark.conformance("tlex.GET.tlc")
def test_one_registered_controller_is_shown(site: Site) -> None:
    made = site.register("SHOWN001")
    assert made == made | {"identifier": "SHOWN001", "type": "TCPStreaming", "domain": "test"}
    assert site.ask("GET", f"/tlcs/{made['uuid']}", Role.BROKER_SYSTEM).json() == made


@pytest.mark.conformance("tlex.GET.tlc.unknown")
def test_a_controller_of_another_domain_is_as_unknown_as_one_that_is_not_there(site: Site) -> None:
    foreign = site.register("FOREIGN1", domain="other")
    for uuid in (foreign["uuid"], "00000000-0000-0000-0000-000000000000", "nonsense"):
        assert site.ask("GET", f"/tlcs/{uuid}", Role.BROKER_SYSTEM).status_code == 404


@pytest.mark.conformance("tlex.POST.tlcs")
def test_a_controller_is_registered_and_can_be_used_at_once(site: Site) -> None:
    answer = site.ask("POST", "/tlcs", Role.TLC_ADMIN, {"identifier": "NEW00001"})
    assert (answer.status_code, answer.json()["account"]) == (201, site.account("ours"))
    assert site.post("Broker", "NEW00001").status_code == 200


@pytest.mark.conformance("tlex.POST.tlcs.refused")
def test_a_controller_that_cannot_be_registered_is_refused(site: Site) -> None:
    site.register("ONCE0001")
    bodies: list[object] = [
        {"identifier": "ONCE0001"},
        {"identifier": "short"},
        {"identifier": "TYPE0001", "type": "MIDI"},
        {"type": "VLOG"},
        [],
    ]
    for body in bodies:
        assert site.ask("POST", "/tlcs", Role.TLC_ADMIN, body).status_code == 400
    assert site.ask("POST", "/tlcs", Role.BROKER_ADMIN, {"identifier": "ROLE0001"}).status_code == 403
    foreign = {"identifier": "ELSE0001", "domain": "else"}
    assert site.ask("POST", "/tlcs", Role.TLC_ADMIN, foreign).status_code == 403


@pytest.mark.conformance("tlex.DELETE.tlc")
def test_a_controller_that_is_unregistered_leaves_every_session_and_ends_those_without_another(site: Site) -> None:
    gone, kept = site.register("GONE0001"), site.register("KEPT0001")
    both, alone = site.join("Broker", "GONE0001", "KEPT0001"), site.join("TLC", "GONE0001")
    assert site.ask("DELETE", f"/tlcs/{gone['uuid']}", Role.TLC_ADMIN).status_code == 204
    assert alone.bye() == "TLC deleted"
    shown = site.ask("GET", f"/sessions/{both.token}", Role.BROKER_SYSTEM).json()
    assert shown["details"]["tlcIdentifiers"] == [kept["identifier"]]
    assert site.post("TLC", "GONE0001").status_code == 400


@pytest.mark.conformance("tlex.DELETE.tlc.foreign")
def test_a_controller_is_unregistered_by_its_owner_only(site: Site) -> None:
    made = site.register("OWNED001")
    assert site.ask("DELETE", f"/tlcs/{made['uuid']}", Role.TLC_ADMIN, account="others").status_code == 404
    assert site.ask("DELETE", f"/tlcs/{made['uuid']}", Role.TLC_SYSTEM).status_code == 403


@pytest.mark.conformance("tlex.GET.sessionlogs")
def test_past_sessions_of_the_account_are_listed_by_time(site: Site) -> None:
    (a,) = site.tlcs(1)
    before = time.time_ns() // 1_000_000
    peer = site.join("Broker", a, account="chronicler")
    peer.send(Bye())
    assert peer.bye() is None
    (entry,) = logs(site, f"from={before}", "chronicler")
    assert entry["type"] == "Broker"
    assert entry["tlcIdentifiers"] == [a]
    assert before <= entry["created"] <= entry["connected"] <= entry["ended"]
    assert peer.token not in str(entry)
    assert logs(site, f"until={before - 1}", "chronicler") == []
    assert logs(site, "from=2020-01-01T00:00:00Z&until=2120-01-01T00:00:00%2B01:00", "chronicler") == [entry]
    assert logs(site, "from=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z", "chronicler") == []
    assert logs(site, f"from={before}", "others") == []


def logs(site: Site, query: str, account: str = "ours") -> list[dict[str, Any]]:
    answer = site.ask("GET", f"/sessionlogs?{query}", Role.BROKER_ADMIN, account=account)
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()
    return found


@pytest.mark.conformance("tlex.GET.sessionlogs.refused")
def test_a_range_of_time_that_cannot_be_is_refused(site: Site) -> None:
    for query in (
        "from=2&until=1",
        "from=yesterday",
        "until=-1",
        "until=99999999999999999999",
        "from=0001-01-01T00:00:00Z",
    ):
        assert site.ask("GET", f"/sessionlogs?{query}", Role.BROKER_ADMIN).status_code == 400
    assert site.ask("GET", "/sessionlogs", Role.BROKER_SYSTEM).status_code == 403


def leave(site: Site, account: str, identifier: str) -> None:
    site.join("Broker", identifier, account=account).send(Bye("leaving"))


def break_off(site: Site, account: str, identifier: str) -> None:
    site.join("Broker", identifier, account=account).break_off()


def administer(site: Site, account: str, identifier: str) -> None:
    token = site.session("Broker", identifier, account=account)["token"]
    site.ask("DELETE", f"/sessions/{token}", Role.BROKER_ADMIN, account=account)


def unregister(site: Site, account: str, identifier: str) -> None:
    site.session("Broker", identifier, account=account)
    uuid = next(each.uuid for each in site.store.tlcs() if each.identifier == identifier)
    site.ask("DELETE", f"/tlcs/{uuid}", Role.TLC_ADMIN)


def expire(site: Site, account: str, identifier: str) -> None:
    site.session("Broker", identifier, account=account)


def violate_protocol(site: Site, account: str, identifier: str) -> None:
    site.join("Broker", identifier, account=account).send_bytes(b"not a frame")


def revoke(site: Site, account: str, identifier: str) -> None:
    site.join("Broker", identifier, account=account)
    for authorization in site.store.authorizations(site.account(account)):
        for token in site.store.tokens(authorization.uuid):
            site.store.revoke(token.uuid, 1)
    # Another one, to ask with.
    site._secrets = {place: secret for place, secret in site._secrets.items() if place[0] != account}


ENDS: dict[str, Callable[[Site, str, str], None]] = {
    "CLIENT_DISCONNECT": leave,
    "SESSION_EXPIRED": expire,
    "ADMIN_TERMINATION": administer,
    "TLC_DELETED": unregister,
    "TOKEN_REVOKED": revoke,
    "CONNECTION_ERROR": break_off,
    "PROTOCOL_ERROR": violate_protocol,
}


@pytest.mark.parametrize(
    "end", [pytest.param(name, marks=pytest.mark.conformance(f"tlex.endReason.{name}"), id=name) for name in ENDS]
)
def test_a_past_session_tells_how_it_ended(strict: Site, end: str) -> None:
    (a,) = strict.tlcs(1)
    account = f"account of {end}"
    ENDS[end](strict, account, a)
    deadline = time.monotonic() + 10
    while not (found := logs(strict, "from=0", account)):
        assert time.monotonic() < deadline
    assert [each["endReason"] for each in found] == [end]


@pytest.mark.conformance("tlex.error.shape")
def test_errors_have_a_message_and_a_status(site: Site) -> None:
    answer = site.http.get("/sessions")
    assert answer.json() == {"message": "HTTP 401 Unauthorized", "status": 401}
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.conformance("tlex.error.401")
def test_a_token_that_is_missing_unknown_or_revoked_is_refused_before_anything_else(site: Site) -> None:
    revoked = site.token(Role.TLC_SYSTEM, "revoked")
    for authorization in site.store.authorizations(site.account("revoked")):
        for token in site.store.tokens(authorization.uuid):
            site.store.revoke(token.uuid, 1)
    for headers in ({}, {"X-Authorization": ""}, {"X-Authorization": "x" * 5_000}, {"X-Authorization": revoked}):
        for method, path in [key for key in ROUTES if key[1] != "/openapi.json"]:
            answer = site.http.request(method, path, headers=headers, content=b"{")
            assert (answer.status_code, answer.json()["status"]) == (401, 401)


@pytest.mark.conformance("tlex.error.404")
def test_a_path_that_does_not_exist_is_answered_in_the_same_shape(site: Site) -> None:
    headers = {"X-Authorization": site.token(Role.BROKER_SYSTEM)}
    for path in ("/nothing", "/", "/sessions/", "/sessions/a%0Ab", "/%0A"):
        answer = site.http.get(path, headers=headers)
        assert (answer.status_code, answer.json()) == (404, {"message": "HTTP 404 Not Found", "status": 404})


@pytest.mark.conformance("tlex.error.405")
def test_a_method_that_does_not_exist_is_answered_with_those_that_do(site: Site) -> None:
    answer = site.http.patch("/sessions")
    assert (answer.status_code, answer.json()["status"]) == (405, 405)
    assert {"GET", "POST"} <= set(answer.headers["allow"].split(", "))


@pytest.mark.conformance("tlex.error.503")
def test_a_server_that_goes_down_says_so(tmp_path: Path) -> None:
    with Site(tmp_path, {"tlex.reconnect_millis": 10_000}) as own:
        a, b = own.tlcs(2)
        staying = own.join("Broker", a)
        own.background._loop.call_soon_threadsafe(own.background._stop.set)
        staying.expect(Reconnect)
        answer = own.post("Broker", b)
        assert (answer.status_code, answer.json()["status"]) == (503, 503)
        assert own.ask("GET", "/tlcs", Role.BROKER_SYSTEM).status_code == 200
        staying.send(Bye())
        assert staying.bye() is None


@pytest.mark.conformance("tlex.openapi")
def test_the_openapi_document_is_served_to_everybody_and_has_every_route(site: Site) -> None:
    document = site.http.get("/openapi.json").json()
    operations = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert operations == set(ROUTES) - {("GET", "/openapi.json")}
