from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.exchange.authorization import Role
from tests.doors.tlex.site import Site, named, plain, request

SINGLEPLEX = "TCPStreaming_Singleplex"
MULTIPLEX = "TCPStreaming_Multiplex"


@pytest.mark.conformance("tlex.POST.sessions")
def test_a_session_is_created_with_status_200_and_a_new_token(site: Site) -> None:
    (a,) = site.tlcs(1)
    answer = site.post("Broker", a)
    other = site.session("Broker", a, account="others")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert len(answer.json()["token"]) == 43
    assert answer.json()["token"] != other["token"]


def expiration(value: Any) -> bool:
    left = datetime.fromisoformat(value) - datetime.now(UTC)
    return bool(value.endswith("Z") and 3 < left.total_seconds() <= 6.1)


FIELDS: dict[str, Any] = {
    "token": lambda value: isinstance(value, str),
    "domain": "test",
    "type": "Broker",
    "protocol": MULTIPLEX,
    "details.securityMode": "NONE",
    "details.tlcIdentifiers": lambda value: len(value) == 2,
    "details.listener.host": "127.0.0.1",
    "details.listener.port": lambda value: isinstance(value, int) and value > 0,
    "details.listener.expiration": expiration,
    "details.keepAliveTimeout": "PT5S",
    "details.clockDiffLimit": "PT3S",
    "details.clockDiffLimitDuration": "PT60S",
    "details.payloadRateLimit": 1200,
    "details.payloadRateLimitDuration": "PT5S",
    "details.payloadThroughputLimit": 120,
    "details.payloadThroughputLimitDuration": "PT5S",
}


@pytest.mark.parametrize(
    "field", [pytest.param(name, marks=pytest.mark.conformance(f"tlex.field.{name}"), id=name) for name in FIELDS]
)
def test_an_answer_has_every_field_of_the_specification(site: Site, field: str) -> None:
    value: Any = site.session("Broker", *site.tlcs(2))
    for name in field.split("."):
        value = value[name]
    expected = FIELDS[field]
    assert expected(value) if callable(expected) else value == expected


@pytest.mark.conformance("tlex.field.details.tlcIdentifier")
def test_a_singleplex_session_has_one_identifier_and_no_list(site: Site) -> None:
    (a,) = site.tlcs(1)
    details = site.session("TLC", a, protocol=SINGLEPLEX)["details"]
    assert details["tlcIdentifier"] == a
    assert "tlcIdentifiers" not in details


@pytest.mark.conformance("tlex.POST.sessions.domain")
def test_domains_are_the_same_in_upper_and_lower_case(site: Site) -> None:
    (a,) = site.tlcs(1)
    body = request("Broker", a, domain="TEST")
    answer = site.ask("POST", "/sessions", Role.BROKER_SYSTEM, body)
    assert (answer.status_code, answer.json()["domain"]) == (200, "test")


@pytest.mark.conformance("tlex.POST.sessions.securityMode.spelling")
def test_the_security_mode_may_be_spelled_without_a_dot(site: Site) -> None:
    (a,) = site.tlcs(1)
    assert site.session("Broker", a, security="TLSv1_2")["details"]["securityMode"] == "TLSv1.2"


def changed(**changes: Any) -> dict[str, Any]:
    """A request for NOTTHERE, with changes by dotted name; None removes."""
    body = request("Broker", "NOTTHERE")
    for name, value in changes.items():
        *path, last = name.split("__")
        place = body
        for each in path:
            place = place[each]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return body


BAD = {
    "domain.missing": (changed(domain=None), "domain: missing"),
    "type.missing": (changed(type=None), "type: missing"),
    "type.unknown": (changed(type="Cyclist"), "type: "),
    "protocol.unknown": (changed(protocol="UDP"), "protocol: "),
    "protocol.singleplex": (changed(protocol=SINGLEPLEX), "protocol: "),
    "details.missing": (changed(details=None), "details: missing"),
    "securityMode.missing": (changed(details__securityMode=None), "details.securityMode: missing"),
    "securityMode.unknown": (changed(details__securityMode="SSL"), "details.securityMode: "),
    "tlcIdentifiers.missing": (changed(details__tlcIdentifiers=None), "details.tlcIdentifiers: missing"),
    "tlcIdentifiers.empty": (changed(details__tlcIdentifiers=[]), "details.tlcIdentifiers: 0 identifiers"),
    "tlcIdentifiers.pattern": (changed(details__tlcIdentifiers=["ü2345678"]), "details.tlcIdentifiers"),
    "tlcIdentifiers.twice": (changed(details__tlcIdentifiers=["NOTTHERE"] * 2), "details.tlcIdentifiers[1]: "),
    "tlcIdentifiers.unregistered": (changed(), "details.tlcIdentifiers[0]: 'NOTTHERE' is not registered"),
    "tlcIdentifier.both": (changed(details__tlcIdentifier="NOTTHERE"), "details.tlcIdentifier: not allowed"),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=pytest.mark.conformance(f"tlex.POST.sessions.{name}"), id=name) for name in BAD],
)
def test_a_request_that_cannot_be_right_is_refused_and_the_field_is_named(site: Site, case: str) -> None:
    body, expected = BAD[case]
    answer = site.ask("POST", "/sessions", Role.BROKER_SYSTEM, body)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(f"HTTP 400 Bad Request: {expected}")


@pytest.mark.conformance("tlex.POST.sessions.malformed")
def test_a_body_that_is_not_json_is_refused(site: Site) -> None:
    headers = {"X-Authorization": site.token(Role.BROKER_SYSTEM)}
    for body in (b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"null"):
        answer = site.http.post("/sessions", content=body, headers=headers)
        assert (answer.status_code, answer.json()["status"]) == (400, 400)


@pytest.mark.conformance("tlex.POST.sessions.large")
def test_a_body_that_is_too_large_is_refused(site: Site) -> None:
    headers = {"X-Authorization": site.token(Role.BROKER_SYSTEM)}
    answer = site.http.post("/sessions", content=b" " * 1_100_000, headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (413, 413)


@pytest.mark.conformance("tlex.POST.sessions.tlcIdentifiers.many")
def test_a_controllers_session_has_at_most_a_hundred_identifiers(site: Site) -> None:
    answer = site.post("TLC", *[f"MANY{number:04}" for number in range(101)])
    assert (answer.status_code, "101 identifiers, allowed: 1 to 100" in answer.text) == (400, True)


@pytest.mark.conformance("tlex.POST.sessions.tlcIdentifiers.type")
def test_a_controllers_own_session_has_the_protocol_of_its_type(site: Site) -> None:
    (a,) = site.tlcs(1)
    site.register("VLOG0001", type="VLOG")
    for identifier, protocol in (("VLOG0001", SINGLEPLEX), ("VLOG0001", "TCPStreaming_Multiplex"), (a, "VLOG")):
        answer = site.post("TLC", identifier, protocol=protocol)
        assert (answer.status_code, f"'{identifier}' is of type" in answer.text) == (400, True)


@pytest.mark.conformance("tlex.POST.sessions.protocol.VLOG")
def test_a_session_of_v_log_has_one_identifier_and_is_a_controllers_own(site: Site) -> None:
    site.register("VLOG0002", type="VLOG")
    session = site.session("TLC", "VLOG0002", protocol="VLOG")
    assert (session["protocol"], session["details"]["tlcIdentifier"]) == ("VLOG", "VLOG0002")
    assert site.post("Broker", "VLOG0002", protocol="VLOG").status_code == 400
    changed = site.ask("PUT", f"/sessions/{session['token']}", Role.TLC_ADMIN, session["details"])
    assert changed.status_code == 400


@pytest.mark.conformance("tlex.POST.sessions.role")
def test_the_type_of_a_session_is_that_of_the_role(site: Site) -> None:
    (a,) = site.tlcs(1)
    for role, type_ in ((Role.BROKER_SYSTEM, "TLC"), (Role.TLC_SYSTEM, "Broker"), (Role.DOMAIN_ADMIN, "Monitor")):
        assert site.ask("POST", "/sessions", role, request(type_, a)).status_code == 403
    assert site.ask("POST", "/sessions", Role.BROKER_ANALYST, request("Broker", a)).status_code == 403


@pytest.mark.conformance("tlex.POST.sessions.domain.other")
def test_the_domain_is_that_of_the_token(site: Site) -> None:
    (a,) = site.tlcs(1)
    assert site.ask("POST", "/sessions", Role.BROKER_SYSTEM, request("Broker", a, domain="else")).status_code == 403


@pytest.mark.conformance("tlex.POST.sessions.scope")
def test_a_token_may_be_for_some_controllers_only(site: Site) -> None:
    a, b = site.tlcs(2)
    headers = {"X-Authorization": site.token(Role.TLC_SYSTEM, identifiers=(a,))}
    assert site.http.post("/sessions", json=request("TLC", a, b), headers=headers).status_code == 403
    assert site.http.post("/sessions", json=request("TLC", a), headers=headers).status_code == 200


@pytest.mark.conformance("tlex.unique.TLC")
def test_a_controller_has_one_session_of_its_own_whoever_asks(site: Site) -> None:
    a, b = site.tlcs(2)
    site.session("TLC", a, protocol=SINGLEPLEX)
    answer = site.post("TLC", b, a, account="others")
    assert (answer.status_code, f"{a!r} is in use" in answer.text) == (400, True)
    assert site.post("TLC", b).status_code == 200


@pytest.mark.conformance("tlex.unique.Broker")
def test_a_broker_account_has_a_controller_once(site: Site) -> None:
    a, b = site.tlcs(2)
    site.session("Broker", a)
    assert site.post("Broker", a, b).status_code == 400


@pytest.mark.conformance("tlex.unique.Broker.others")
def test_other_broker_accounts_may_have_the_same_controller(site: Site) -> None:
    (a,) = site.tlcs(1)
    site.session("Broker", a)
    assert site.post("Broker", a, account="others").status_code == 200


@pytest.mark.conformance("tlex.unique.Monitor")
def test_a_monitor_account_has_a_controller_once_besides_that_of_its_broker(site: Site) -> None:
    (a,) = site.tlcs(1)
    site.session("Broker", a)
    site.session("Monitor", a)
    assert site.post("Monitor", a).status_code == 400
    assert site.post("Monitor", a, account="others").status_code == 200


@pytest.mark.conformance("tlex.GET.sessions")
def test_active_sessions_are_listed_connected_or_not(site: Site) -> None:
    a, b = site.tlcs(2)
    waiting = site.session("Broker", a, account="lister")
    connected = site.join("Broker", b, account="lister")
    listed = site.ask("GET", "/sessions", Role.BROKER_SYSTEM, account="lister").json()
    assert [each["token"] for each in listed] == [waiting["token"], connected.token]
    assert listed[0] == waiting


@pytest.mark.conformance("tlex.GET.sessions.own")
def test_sessions_of_other_accounts_are_not_listed(site: Site) -> None:
    (a,) = site.tlcs(1)
    theirs = site.session("Broker", a, account="others")["token"]
    tokens = [each["token"] for each in site.ask("GET", "/sessions", Role.BROKER_SYSTEM).json()]
    overseen = [each["token"] for each in site.ask("GET", "/sessions", Role.DOMAIN_ADMIN).json()]
    assert (theirs in tokens, theirs in overseen) == (False, True)


@pytest.mark.conformance("tlex.GET.sessions.filter")
def test_the_list_can_be_filtered(site: Site) -> None:
    a, b = site.tlcs(2)
    site.session("TLC", a, protocol=SINGLEPLEX, account="filterer")
    site.session("TLC", b, account="filterer")

    def listed(query: str) -> int:
        return len(site.ask("GET", f"/sessions?{query}", Role.TLC_SYSTEM, account="filterer").json())

    assert [listed(f"protocol={SINGLEPLEX}"), listed("type=TLC"), listed("type=Broker")] == [1, 2, 0]
    assert site.ask("GET", "/sessions?type=Cyclist", Role.TLC_SYSTEM).status_code == 400


@pytest.mark.conformance("tlex.GET.session")
def test_a_session_is_shown_as_it_was_created(site: Site) -> None:
    (a,) = site.tlcs(1)
    made = site.session("Broker", a)
    answer = site.ask("GET", f"/sessions/{made['token']}", Role.BROKER_SYSTEM)
    assert (answer.status_code, answer.json()) == (200, made)


@pytest.mark.conformance("tlex.GET.session.unknown")
def test_an_unknown_session_is_not_found(site: Site) -> None:
    assert site.ask("GET", "/sessions/unknown", Role.BROKER_SYSTEM).status_code == 404


@pytest.mark.conformance("tlex.GET.session.foreign")
def test_a_session_of_another_account_is_not_found_whatever_is_asked(site: Site) -> None:
    (a,) = site.tlcs(1)
    path = f"/sessions/{site.session('Broker', a)['token']}"
    details = {"securityMode": "NONE", "tlcIdentifiers": [a]}
    for method, body in (("GET", None), ("PUT", details), ("DELETE", None)):
        assert site.ask(method, path, Role.BROKER_ADMIN, body, account="others").status_code == 404


@pytest.mark.conformance("tlex.GET.session.ended")
def test_a_session_that_has_ended_is_not_found(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    path = f"/sessions/{peer.token}"
    assert site.ask("GET", path, Role.BROKER_SYSTEM).status_code == 200
    site.ask("DELETE", path, Role.BROKER_ADMIN)
    assert site.ask("GET", path, Role.BROKER_SYSTEM).status_code == 404


@pytest.mark.conformance("tlex.PUT.session")
def test_other_controllers_for_a_session_are_answered_with_all_of_it(site: Site) -> None:
    a, b, c = site.tlcs(3)
    made = site.session("Broker", a, b)
    answer = put(site, made["token"], a, c)
    made["details"]["tlcIdentifiers"] = [a, c]
    assert (answer.status_code, answer.json()) == (200, made)


def put(site: Site, token: str, *identifiers: str, security: str = "NONE") -> Any:
    details = {"securityMode": security, "tlcIdentifiers": list(identifiers)}
    return site.ask("PUT", f"/sessions/{token}", Role.BROKER_SYSTEM, details)


@pytest.mark.conformance("tlex.PUT.session.live")
def test_other_controllers_take_effect_on_the_live_connection(site: Site) -> None:
    a, b = site.tlcs(2)
    broker, one, other = site.join("Broker", a), site.controller(a), site.controller(b)
    put(site, broker.token, b)
    one.send(plain("no more"))
    one.synchronize()
    other.send(plain("from now on"))
    assert broker.payload() == named(b, "from now on")


@pytest.mark.conformance("tlex.PUT.session.before_connect")
def test_a_session_can_be_changed_before_it_is_connected(site: Site) -> None:
    a, b = site.tlcs(2)
    session = site.session("Broker", a)
    put(site, session["token"], b)
    broker, controller = site.connect(session), site.controller(b)
    controller.send(plain("hello"))
    assert broker.payload() == named(b, "hello")


@pytest.mark.conformance("tlex.PUT.session.atomic")
def test_a_change_that_is_refused_changes_nothing(site: Site) -> None:
    a, b, c = site.tlcs(3)
    made = site.session("Broker", a)
    site.session("Broker", c)
    assert [put(site, made["token"], b, c).status_code, put(site, made["token"], b, "NOTTHERE").status_code] == [
        400
    ] * 2
    assert site.ask("GET", f"/sessions/{made['token']}", Role.BROKER_SYSTEM).json() == made
    assert site.post("Broker", b).status_code == 200


@pytest.mark.conformance("tlex.PUT.session.securityMode")
def test_the_security_mode_of_a_session_cannot_be_changed(site: Site) -> None:
    (a,) = site.tlcs(1)
    answer = put(site, site.session("Broker", a)["token"], a, security="TLSv1.2")
    assert (answer.status_code, "securityMode: 'TLSv1.2', the session has 'NONE'" in answer.text) == (400, True)


@pytest.mark.conformance("tlex.PUT.session.singleplex")
def test_a_singleplex_session_cannot_be_changed(site: Site) -> None:
    (a,) = site.tlcs(1)
    token = site.session("TLC", a, protocol=SINGLEPLEX)["token"]
    details = {"securityMode": "NONE", "tlcIdentifier": a}
    assert site.ask("PUT", f"/sessions/{token}", Role.TLC_SYSTEM, details).status_code == 400


@pytest.mark.conformance("tlex.PUT.session.empty")
def test_a_session_cannot_be_left_without_controllers(site: Site) -> None:
    (a,) = site.tlcs(1)
    assert put(site, site.session("Broker", a)["token"]).status_code == 400


@pytest.mark.conformance("tlex.DELETE.session")
def test_a_session_that_is_deleted_ends_with_bye(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a)
    answer = site.ask("DELETE", f"/sessions/{peer.token}", Role.BROKER_ADMIN)
    assert (answer.status_code, answer.content) == (204, b"")
    assert peer.bye() == "session deleted"


@pytest.mark.conformance("tlex.DELETE.session.role")
def test_only_administrators_delete_sessions(site: Site) -> None:
    (a,) = site.tlcs(1)
    token = site.session("Broker", a)["token"]
    assert site.ask("DELETE", f"/sessions/{token}", Role.BROKER_SYSTEM).status_code == 403
