"""Accounts, authorizations and tokens by REST. What may be granted by whom is tested in full in `tests/exchange`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from penstock.exchange.authorization import Role
from penstock.wire.tlex.datagrams import Bye
from tests.doors.tlex.site import Site, named
from tests.store.postgres import Postgres

NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A hub of its own with each kind of database."""
    directory = tmp_path_factory.mktemp("administration")
    if request.param == "sqlite":
        with Site(directory) as running:
            yield running
    else:
        with Postgres() as postgres, Site(directory, url=postgres.url) as running:
            yield running


def add(site: Site, path: str, body: object, role: Role, account: str = "ours") -> dict[str, Any]:
    answer = site.ask("POST", path, role, body, account=account)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def with_token(site: Site, method: str, path: str, token: str, body: object = None) -> httpx.Response:
    return site.http.request(method, path, json=body, headers={"X-Authorization": token})


@pytest.mark.conformance("tlex.POST.accounts")
@pytest.mark.conformance("tlex.GET.accounts")
@pytest.mark.conformance("tlex.GET.account")
def test_an_account_is_added_and_shown_to_the_platforms_administrators(site: Site) -> None:
    made = add(site, "/accounts", {"name": "Rotterdam"}, Role.PLATFORM_ADMIN)
    assert list(made) == ["uuid", "name"]
    assert made in site.ask("GET", "/accounts", Role.PLATFORM_ADMIN).json()
    assert site.ask("GET", f"/accounts/{made['uuid']}", Role.PLATFORM_ADMIN).json() == made
    assert site.ask("GET", f"/accounts/{NOBODY}", Role.PLATFORM_ADMIN).status_code == 404


@pytest.mark.conformance("tlex.POST.accounts.refused")
def test_an_account_that_cannot_be_is_refused(site: Site) -> None:
    add(site, "/accounts", {"name": "Once"}, Role.PLATFORM_ADMIN)
    bodies: list[object] = [{"name": "Once"}, {"name": " padded "}, {"name": ""}, {}, []]
    for body in bodies:
        answer = site.ask("POST", "/accounts", Role.PLATFORM_ADMIN, body)
        assert answer.status_code == 400, answer.text
    for role in set(Role) - {Role.PLATFORM_ADMIN}:
        assert site.ask("POST", "/accounts", role, {"name": "No"}).status_code == 403
        assert site.ask("GET", "/accounts", role).status_code == 403


@pytest.mark.conformance("tlex.PUT.account")
def test_an_account_is_renamed_unless_another_has_the_name(site: Site) -> None:
    made = add(site, "/accounts", {"name": "Old name"}, Role.PLATFORM_ADMIN)
    path = f"/accounts/{made['uuid']}"
    assert site.ask("PUT", path, Role.PLATFORM_ADMIN, {"name": "New name"}).json() == {**made, "name": "New name"}
    add(site, "/accounts", {"name": "Taken"}, Role.PLATFORM_ADMIN)
    assert site.ask("PUT", path, Role.PLATFORM_ADMIN, {"name": "Taken"}).status_code == 400
    assert site.ask("PUT", f"/accounts/{NOBODY}", Role.PLATFORM_ADMIN, {"name": "Any"}).status_code == 404


@pytest.mark.conformance("tlex.DELETE.account")
def test_an_account_goes_with_its_tokens_and_sessions_but_not_with_controllers(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a, account="leaving")
    path, token = f"/accounts/{site.account('leaving')}", site.token(Role.BROKER_SYSTEM, "leaving")
    assert site.ask("DELETE", path, Role.PLATFORM_ADMIN).status_code == 204
    assert peer.bye() == "authorization token revoked"
    assert with_token(site, "GET", "/sessions", token).status_code == 401
    assert site.ask("DELETE", path, Role.PLATFORM_ADMIN).status_code == 404
    owner = site.ask("DELETE", f"/accounts/{site.account('ours')}", Role.PLATFORM_ADMIN, account="operator")
    assert (owner.status_code, "still owns controllers" in owner.text) == (400, True)
    own = site.ask("DELETE", f"/accounts/{site.account('operator')}", Role.PLATFORM_ADMIN, account="operator")
    assert (own.status_code, "of the request itself" in own.text) == (400, True)


@pytest.mark.conformance("tlex.POST.authorizations")
@pytest.mark.conformance("tlex.GET.authorizations")
@pytest.mark.conformance("tlex.GET.authorization")
def test_an_authorization_is_granted_and_shown(site: Site) -> None:
    made = add(site, "/authorizations", {"role": "BROKER_SYSTEM"}, Role.BROKER_ADMIN)
    assert list(made) == ["uuid", "domain", "account", "role", "tlcIdentifiers"]
    assert made == made | {"domain": "test", "account": site.account("ours"), "tlcIdentifiers": []}
    assert made in site.ask("GET", "/authorizations", Role.BROKER_ADMIN).json()
    assert site.ask("GET", f"/authorizations/{made['uuid']}", Role.BROKER_ADMIN).json() == made
    filtered = site.ask("GET", f"/authorizations?account={NOBODY}", Role.DOMAIN_ADMIN).json()
    assert filtered == []
    listed = site.ask("GET", "/authorizations?domain=Test", Role.PLATFORM_ADMIN).json()
    assert made in listed
    assert {each["domain"] for each in listed} == {"test"}


@pytest.mark.conformance("tlex.POST.authorizations.refused")
def test_nobody_grants_more_than_they_may(site: Site) -> None:
    refused = [
        ({"role": "TLC_SYSTEM"}, 403, "role: 'TLC_SYSTEM' cannot be granted by role BROKER_ADMIN; allowed: "),
        ({"role": "BROKER_SYSTEM", "domain": "other"}, 403, "domain: "),
        ({"role": "BROKER_SYSTEM", "account": NOBODY}, 403, "account: "),
        ({"role": "KING"}, 400, "role: Invalid enum value 'KING', allowed: PLATFORM_ADMIN, "),
        ({}, 400, "role: missing"),
    ]
    for body, status, text in refused:
        answer = site.ask("POST", "/authorizations", Role.BROKER_ADMIN, body)
        assert (answer.status_code, text in answer.text) == (status, True), answer.text
    assert site.ask("POST", "/authorizations", Role.BROKER_SYSTEM, {"role": "BROKER_SYSTEM"}).status_code == 403
    unknown = {"role": "BROKER_SYSTEM", "account": NOBODY}
    assert site.ask("POST", "/authorizations", Role.PLATFORM_ADMIN, unknown).status_code == 400


@pytest.mark.conformance("tlex.GET.authorization.foreign")
def test_an_authorization_of_others_is_as_unknown_as_one_that_does_not_exist(site: Site) -> None:
    made = add(site, "/authorizations", {"role": "BROKER_SYSTEM"}, Role.BROKER_ADMIN, "others")
    for role in (Role.BROKER_ADMIN, Role.TLC_ADMIN):
        for method, body in (("GET", None), ("DELETE", None), ("PUT", {"role": "BROKER_ADMIN"})):
            assert site.ask(method, f"/authorizations/{made['uuid']}", role, body).status_code == 404
    assert site.ask("GET", f"/authorizations/{made['uuid']}", Role.DOMAIN_ADMIN).json() == made


@pytest.mark.conformance("tlex.POST.authorizationtokens")
@pytest.mark.conformance("tlex.GET.authorizationtokens")
@pytest.mark.conformance("tlex.GET.authorizationtoken")
def test_a_token_can_be_used_at_once_and_its_secret_is_shown_only_once(site: Site) -> None:
    granted = add(site, "/authorizations", {"role": "BROKER_SYSTEM"}, Role.BROKER_ADMIN)
    made = add(site, "/authorizationtokens", {"authorization": granted["uuid"]}, Role.BROKER_ADMIN)
    secret = made.pop("token")
    assert len(secret) == 43
    assert with_token(site, "GET", "/sessions", secret).status_code == 200
    path = f"/authorizationtokens?authorization={granted['uuid']}"
    assert site.ask("GET", path, Role.BROKER_ADMIN).json() == [made]
    assert site.ask("GET", f"/authorizationtokens/{made['uuid']}", Role.BROKER_ADMIN).json() == made
    assert secret not in site.ask("GET", "/authorizationtokens", Role.PLATFORM_ADMIN).text
    for admin in (Role.TLC_ADMIN, Role.MONITOR_ADMIN):
        assert site.ask("GET", f"/authorizationtokens/{made['uuid']}", admin).status_code == 404
        answer = site.ask("POST", "/authorizationtokens", admin, {"authorization": granted["uuid"]})
        assert (answer.status_code, "authorization: " in answer.text) == (400, True)
    assert site.ask("GET", "/authorizationtokens", Role.BROKER_SYSTEM).status_code == 403


def session_of(site: Site, token: str, identifier: str) -> str:
    details = {"securityMode": "NONE", "tlcIdentifiers": [identifier]}
    body = {"domain": "test", "type": "Broker", "protocol": "TCPStreaming_Multiplex", "details": details}
    answer = with_token(site, "POST", "/sessions", token, body)
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["token"]
    return found


def granted_token(site: Site, **grant: object) -> tuple[dict[str, Any], dict[str, Any]]:
    granted = add(site, "/authorizations", {"role": "BROKER_SYSTEM", **grant}, Role.BROKER_ADMIN)
    return granted, add(site, "/authorizationtokens", {"authorization": granted["uuid"]}, Role.BROKER_ADMIN)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(f"{kind}s", marks=pytest.mark.conformance(f"tlex.DELETE.{kind}"), id=kind)
        for kind in ("authorizationtoken", "authorization")
    ],
)
def test_what_is_revoked_ends_sessions_before_the_answer(site: Site, kind: str) -> None:
    (a,) = site.tlcs(1)
    granted, token = granted_token(site)
    session = session_of(site, token["token"], a)
    path = f"/{kind}/{(token if kind == 'authorizationtokens' else granted)['uuid']}"
    assert site.ask("DELETE", path, Role.BROKER_ADMIN).status_code == 204
    assert site.ask("GET", f"/sessions/{session}", Role.DOMAIN_ADMIN).status_code == 404
    assert with_token(site, "GET", "/sessions", token["token"]).status_code == 401
    assert site.ask("GET", path, Role.BROKER_ADMIN).status_code == 404
    assert site.ask("DELETE", path, Role.BROKER_ADMIN).status_code == 404


@pytest.mark.conformance("tlex.PUT.authorization")
def test_a_changed_authorization_is_used_at_once_and_ends_sessions_from_before(site: Site) -> None:
    a, b = site.tlcs(2)
    granted, token = granted_token(site)
    session = session_of(site, token["token"], a)
    path = f"/authorizations/{granted['uuid']}"
    narrower = {"role": "BROKER_SYSTEM", "tlcIdentifiers": [b]}
    changed = site.ask("PUT", path, Role.BROKER_ADMIN, narrower).json()
    assert changed == {**granted, "tlcIdentifiers": [b]}
    assert site.ask("GET", path, Role.BROKER_ADMIN).json() == changed
    assert site.ask("GET", f"/sessions/{session}", Role.DOMAIN_ADMIN).status_code == 404
    assert [each["identifier"] for each in with_token(site, "GET", "/tlcs", token["token"]).json()] == [b]
    session_of(site, token["token"], b)
    assert site.ask("PUT", path, Role.BROKER_ADMIN, {"role": "TLC_ADMIN"}).status_code == 403


@pytest.mark.conformance("tlex.PUT.authorizationtoken")
def test_a_token_that_gets_another_authorization_has_its_rights_at_once(site: Site) -> None:
    (a,) = site.tlcs(1)
    _, token = granted_token(site)
    session = session_of(site, token["token"], a)
    other, _ = granted_token(site, role="BROKER_ANALYST")
    path, body = f"/authorizationtokens/{token['uuid']}", {"authorization": other["uuid"]}
    moved = site.ask("PUT", path, Role.BROKER_ADMIN, body)
    assert moved.json() == {"uuid": token["uuid"], "authorization": other["uuid"], "created": token["created"]}
    assert site.ask("GET", f"/sessions/{session}", Role.DOMAIN_ADMIN).status_code == 404
    assert with_token(site, "GET", "/sessions", token["token"]).status_code == 403
    assert site.ask("PUT", path, Role.BROKER_ADMIN, {"authorization": NOBODY}).status_code == 400


@pytest.mark.conformance("tlex.PUT.authorization.own")
def test_an_administrator_cannot_lock_themselves_out(site: Site) -> None:
    granted, token = granted_token(site, role="BROKER_ADMIN")
    own = (
        ("DELETE", f"/authorizations/{granted['uuid']}", None),
        ("PUT", f"/authorizations/{granted['uuid']}", {"role": "BROKER_SYSTEM"}),
        ("DELETE", f"/authorizationtokens/{token['uuid']}", None),
        ("PUT", f"/authorizationtokens/{token['uuid']}", {"authorization": granted["uuid"]}),
    )
    for method, path, body in own:
        answer = with_token(site, method, path, token["token"], body)
        assert (answer.status_code, "of the request itself" in answer.text) == (400, True), answer.text


@pytest.mark.conformance("tlex.PUT.tlc")
def test_a_changed_controller_keeps_its_uuid_and_leaves_its_sessions(site: Site) -> None:
    made = site.register("BEFORE01")
    peer = site.join("Broker", "BEFORE01")
    path = f"/tlcs/{made['uuid']}"
    changed = site.ask("PUT", path, Role.TLC_ADMIN, {"identifier": "AFTER001"}).json()
    assert changed == {**made, "identifier": "AFTER001"}
    assert peer.bye() == "TLC deleted"
    assert site.ask("GET", path, Role.BROKER_SYSTEM).json() == changed
    assert site.post("Broker", "BEFORE01").status_code == 400
    assert site.post("Broker", "AFTER001").status_code == 200
    site.register("OTHER001")
    assert site.ask("PUT", path, Role.TLC_ADMIN, {"identifier": "OTHER001"}).status_code == 400
    assert site.ask("PUT", path, Role.TLC_ADMIN, {"identifier": "X", "domain": "test"}).status_code == 400
    assert site.ask("PUT", path, Role.TLC_ADMIN, {"identifier": "ELSE0009", "domain": "else"}).status_code == 403
    assert site.ask("PUT", path, Role.TLC_ADMIN, {"identifier": "MINE0001"}, account="others").status_code == 404
    of_vlog = {"identifier": "AFTER001", "type": "VLOG"}
    assert site.ask("PUT", path, Role.TLC_ADMIN, of_vlog).json() == {**changed, "type": "VLOG"}
    renamed = site.ask("PUT", path, Role.TLC_ADMIN, {"identifier": "AFTER002"}).json()
    assert renamed["type"] == "VLOG", "what is not named stays"


@pytest.mark.conformance("tlex.error.404.NUL")
def test_what_no_database_can_have_is_not_found(site: Site) -> None:
    for path in (
        "accounts",
        "authorizations",
        "authorizationtokens",
        "tlcs",
        "sessionlogs",
        "domains",
        "sessiontemplates",
    ):
        assert site.ask("GET", f"/{path}/%00", Role.PLATFORM_ADMIN).status_code == 404, path


@pytest.mark.conformance("tlex.GET.sessionlog")
def test_one_past_session_is_shown_by_its_token_or_the_id_of_the_list(site: Site) -> None:
    (a,) = site.tlcs(1)
    peer = site.join("Broker", a, account="historian")
    peer.send(Bye())
    assert peer.bye() is None
    (entry,) = site.ask("GET", "/sessionlogs", Role.BROKER_ADMIN, account="historian").json()
    path = f"/sessionlogs/{entry['id']}"
    assert site.ask("GET", path, Role.BROKER_ADMIN, account="historian").json() == entry
    assert site.ask("GET", path, Role.BROKER_ADMIN, account="others").status_code == 404
    by_token = f"/sessionlogs/{peer.token}"
    assert site.ask("GET", by_token, Role.BROKER_ADMIN, account="historian").json() == entry
    assert site.ask("GET", by_token, Role.BROKER_ADMIN, account="others").status_code == 404
    live = site.join("Broker", a, account="historian")
    assert site.ask("GET", f"/sessionlogs/{live.token}", Role.BROKER_ADMIN, account="historian").status_code == 404
    assert site.ask("GET", path, Role.BROKER_SYSTEM, account="historian").status_code == 403


@pytest.mark.conformance("tlex.POST.domains")
@pytest.mark.conformance("tlex.GET.domains")
@pytest.mark.conformance("tlex.GET.domain")
def test_a_domain_is_added_and_those_that_are_used_are_listed_too(site: Site) -> None:
    site.token(Role.BROKER_SYSTEM, domain="used")
    made = add(site, "/domains", {"name": "Acceptance"}, Role.PLATFORM_ADMIN)
    assert (list(made), made["name"]) == (["uuid", "name"], "acceptance")
    listed = site.ask("GET", "/domains", Role.PLATFORM_ADMIN).json()
    assert made in listed
    assert {"test", "used"} <= {each["name"] for each in listed}
    assert site.ask("GET", f"/domains/{made['uuid']}", Role.PLATFORM_ADMIN).json() == made
    assert site.ask("GET", f"/domains/{NOBODY}", Role.PLATFORM_ADMIN).status_code == 404


@pytest.mark.conformance("tlex.POST.domains.refused")
def test_a_domain_that_cannot_be_is_refused(site: Site) -> None:
    add(site, "/domains", {"name": "once"}, Role.PLATFORM_ADMIN)
    bodies: list[object] = [{"name": "ONCE"}, {"name": " padded "}, {"name": ""}, {}, []]
    for body in bodies:
        assert site.ask("POST", "/domains", Role.PLATFORM_ADMIN, body).status_code == 400, body
    for role in set(Role) - {Role.PLATFORM_ADMIN}:
        for method, path in (("GET", "/domains"), ("POST", "/domains"), ("DELETE", f"/domains/{NOBODY}")):
            assert site.ask(method, path, role, {"name": "no"}).status_code == 403


def domain_uuid(site: Site, name: str) -> str:
    (found,) = [each for each in site.ask("GET", "/domains", Role.PLATFORM_ADMIN).json() if each["name"] == name]
    uuid: str = found["uuid"]
    return uuid


@pytest.mark.conformance("tlex.PUT.domain")
def test_a_renamed_domain_keeps_what_is_in_it_and_its_sessions_end(site: Site) -> None:
    (a,) = site.tlcs(1, "before")
    peer = site.join("Broker", a, domain="before")
    path = f"/domains/{domain_uuid(site, 'before')}"
    assert site.ask("PUT", path, Role.PLATFORM_ADMIN, {"name": "test"}).status_code == 400
    assert site.ask("PUT", path, Role.PLATFORM_ADMIN, {"name": "After"}).json()["name"] == "after"
    assert peer.bye() in ("TLC deleted", "authorization token revoked")
    token = site.token(Role.BROKER_ADMIN, domain="before")
    listed = with_token(site, "GET", "/tlcs", token).json()
    assert [(each["identifier"], each["domain"]) for each in listed] == [(a, "after")]
    assert site.ask("PUT", f"/domains/{NOBODY}", Role.PLATFORM_ADMIN, {"name": "any"}).status_code == 404


@pytest.mark.conformance("tlex.DELETE.domain")
def test_a_domain_is_removed_only_when_nothing_is_in_it(site: Site) -> None:
    made = site.register("INSIDE01", "filled")
    path = f"/domains/{domain_uuid(site, 'filled')}"
    refused = site.ask("DELETE", path, Role.PLATFORM_ADMIN)
    assert (refused.status_code, "still has controllers" in refused.text) == (400, True)
    assert site.ask("DELETE", f"/tlcs/{made['uuid']}", Role.TLC_ADMIN, domain="filled").status_code == 204
    refused = site.ask("DELETE", path, Role.PLATFORM_ADMIN)
    assert (refused.status_code, "still has authorizations" in refused.text) == (400, True)
    for each in site.ask("GET", "/authorizations?domain=filled", Role.PLATFORM_ADMIN).json():
        assert site.ask("DELETE", f"/authorizations/{each['uuid']}", Role.PLATFORM_ADMIN).status_code == 204
    assert site.ask("DELETE", path, Role.PLATFORM_ADMIN).status_code == 204
    assert site.ask("DELETE", path, Role.PLATFORM_ADMIN).status_code == 404


@pytest.mark.conformance("tlex.payloadPolicy")
def test_sessions_send_and_receive_the_payload_types_of_their_policy_only(site: Site) -> None:
    (a,) = site.tlcs(1)
    policy = {"send": [2, 3], "receive": [4]}
    granted, token = granted_token(site, payloadPolicy=policy)
    assert granted["payloadPolicy"] == policy
    assert site.ask("GET", f"/authorizations/{granted['uuid']}", Role.BROKER_ADMIN).json() == granted
    controller, monitor = site.join("TLC", a), site.join("Monitor", a)
    details = {"securityMode": "NONE", "tlcIdentifiers": [a]}
    body = {"domain": "test", "type": "Broker", "protocol": "TCPStreaming_Multiplex", "details": details}
    broker = site.connect(with_token(site, "POST", "/sessions", token["token"], body).json())
    broker.send(named(a, "no", 1), named(a, "yes", 3))
    assert controller.payload() == named(a, "yes", 3)
    controller.send(named(a, "no", 3), named(a, "yes", 4))
    assert broker.payload() == named(a, "yes", 4)
    assert [monitor.payload().data[-3:] for _ in range(3)] == [b"yes", b"\x03no", b"yes"]
    changed = site.ask("PUT", f"/authorizations/{granted['uuid']}", Role.BROKER_ADMIN, {"role": "BROKER_SYSTEM"})
    assert "payloadPolicy" not in changed.json()
    assert broker.bye() == "authorization token revoked"


@pytest.mark.conformance("tlex.payloadPolicy.Monitor")
def test_a_monitors_policy_is_about_the_types_that_publishers_gave(site: Site) -> None:
    (a,) = site.tlcs(1)
    granted = add(
        site, "/authorizations", {"role": "MONITOR_SYSTEM", "payloadPolicy": {"receive": [7]}}, Role.MONITOR_ADMIN
    )
    token = add(site, "/authorizationtokens", {"authorization": granted["uuid"]}, Role.MONITOR_ADMIN)["token"]
    details = {"securityMode": "NONE", "tlcIdentifiers": [a]}
    body = {"domain": "test", "type": "Monitor", "protocol": "TCPStreaming_Multiplex", "details": details}
    monitor = site.connect(with_token(site, "POST", "/sessions", token, body).json())
    site.join("TLC", a).send(named(a, "no", 1), named(a, "yes", 7))
    assert monitor.payload().data.endswith(b"\x07yes")


@pytest.mark.conformance("tlex.payloadPolicy.refused")
def test_nobody_grants_payload_types_that_they_do_not_have(site: Site) -> None:
    _, token = granted_token(site, role="BROKER_ADMIN", payloadPolicy={"send": [2]})
    body: dict[str, object]
    policies: list[tuple[dict[str, list[int]], int]] = [
        ({"send": [2]}, 201),
        ({"send": []}, 201),
        ({"send": [2, 3]}, 403),
        ({"receive": [2]}, 403),
    ]
    for policy, status in policies:
        body = {"role": "BROKER_SYSTEM", "payloadPolicy": policy}
        assert with_token(site, "POST", "/authorizations", token["token"], body).status_code == status, policy
    wrong: list[object] = [{"send": [240]}, {"send": [-1]}, {"send": "2"}, 5]
    for each in wrong:
        body = {"role": "BROKER_SYSTEM", "payloadPolicy": each}
        assert site.ask("POST", "/authorizations", Role.BROKER_ADMIN, body).status_code == 400, each


@pytest.mark.conformance("tlex.POST.sessiontemplates")
@pytest.mark.conformance("tlex.GET.sessiontemplates")
@pytest.mark.conformance("tlex.GET.sessiontemplate")
@pytest.mark.conformance("tlex.POST.sessions.template")
def test_a_session_can_be_requested_by_the_name_of_a_template(site: Site) -> None:
    a, b = site.tlcs(2)
    details = {"securityMode": "NONE", "tlcIdentifiers": [a]}
    fields = {"name": "north", "type": "Broker", "protocol": "TCPStreaming_Multiplex", "details": details}
    made = add(site, "/sessiontemplates", fields, Role.DOMAIN_ADMIN)
    assert made == {"uuid": made["uuid"], "domain": "test", **fields}
    assert made in site.ask("GET", "/sessiontemplates", Role.BROKER_SYSTEM).json()
    assert site.ask("GET", f"/sessiontemplates/{made['uuid']}", Role.BROKER_SYSTEM).json() == made
    session = site.ask("POST", "/sessions?template=north", Role.BROKER_SYSTEM, {}).json()
    assert (session["domain"], session["type"], session["details"]["tlcIdentifiers"]) == ("test", "Broker", [a])
    other = {"details": {"tlcIdentifiers": [b]}}
    session = site.ask("POST", "/sessions?template=north", Role.BROKER_SYSTEM, other).json()
    assert session["details"]["tlcIdentifiers"] == [b]
    for path in ("/sessions?template=none", "/sessions?template=%00", "/sessions"):
        assert site.ask("POST", path, Role.BROKER_SYSTEM, {}).status_code == 400
    assert site.ask("POST", "/sessions?template=north", Role.MONITOR_SYSTEM, {}).status_code == 403
    assert site.ask("POST", "/sessions?template=north", Role.BROKER_SYSTEM, []).status_code == 400


@pytest.mark.conformance("tlex.PUT.sessiontemplate")
@pytest.mark.conformance("tlex.DELETE.sessiontemplate")
def test_a_template_is_changed_and_removed_by_administrators_of_its_domain(site: Site) -> None:
    made = add(site, "/sessiontemplates", {"name": "old"}, Role.DOMAIN_ADMIN)
    add(site, "/sessiontemplates", {"name": "taken"}, Role.PLATFORM_ADMIN)
    path = f"/sessiontemplates/{made['uuid']}"
    changed = site.ask("PUT", path, Role.DOMAIN_ADMIN, {"name": "new", "type": "Broker"}).json()
    assert changed == {**made, "name": "new", "type": "Broker"}
    for body in ({"name": "taken"}, {"name": "new", "domain": "other"}, {"name": " "}, {}):
        assert site.ask("PUT", path, Role.DOMAIN_ADMIN, body).status_code == 400
    assert site.ask("POST", "/sessiontemplates", Role.DOMAIN_ADMIN, {"name": "taken"}).status_code == 400
    elsewhere = {"name": "x", "domain": "other"}
    assert site.ask("POST", "/sessiontemplates", Role.DOMAIN_ADMIN, elsewhere).status_code == 403
    assert site.ask("DELETE", path, Role.DOMAIN_ADMIN, domain="other").status_code == 404
    for role in (Role.BROKER_ADMIN, Role.TLC_SYSTEM):
        assert site.ask("DELETE", path, role).status_code == 403
    assert site.ask("DELETE", path, Role.DOMAIN_ADMIN).status_code == 204
    assert site.ask("GET", path, Role.DOMAIN_ADMIN).status_code == 404
