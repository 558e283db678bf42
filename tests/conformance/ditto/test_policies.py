"""What policies do over HTTP and WebSockets: subjects that expire and are announced, tokens, proxies, imports."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.adapters.access.world import AUDIENCE, password_of
from tests.doors.ditto.site import SECRET, Site, entry, policy

LONG = 30.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    overrides = {
        "ditto.expiry_granularity_seconds": 1,
        "ditto.pre_authenticated_header": "X-Ditto-Pre-Authenticated",
        "ditto.namespace_policies": ["shared.*=ns:root"],
        "api.proxies.addresses": ["127.0.0.1"],
        "api.proxies.client_header": "X-Forwarded-For",
    }
    with Site(Path(tmp_path_factory.mktemp("policies")), overrides) as found:
        yield found


@pytest.fixture(scope="module")
def alice(site: Site) -> httpx.Client:
    return site.of("alice")


@contextmanager
def socket_of(site: Site, user: str, query: str = "") -> Iterator[ClientConnection]:
    client = httpx.BasicAuth(user, password_of(user))
    header = next(client.auth_flow(httpx.Request("GET", "http://x"))).headers["authorization"]
    url = f"ws://{site.host}:{site.api_port}/ws/2{query}"
    with connect(url, additional_headers={"authorization": header}, open_timeout=LONG) as found:
        found.send("START-SEND-POLICY-ANNOUNCEMENTS")
        assert found.recv(timeout=LONG) == "START-SEND-POLICY-ANNOUNCEMENTS:ACK"
        yield found


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def guest(user: str, seconds: float, **announcement: Any) -> dict[str, Any]:
    subject: dict[str, Any] = {"type": "guest", "expiry": in_seconds(seconds)}
    if announcement:
        subject["announcement"] = announcement
    return {**entry(user, thing=["READ"]), "subjects": {f"nginx:{user}": subject}}


@pytest.mark.conformance("ditto.policy.expiry")
def test_a_guest_is_told_and_loses_its_rights_when_its_time_is_over(site: Site, alice: httpx.Client) -> None:
    with socket_of(site, "bob") as socket:
        given = policy(GUEST=guest("bob", 1.5, beforeExpiry="1s", whenDeleted=True))
        assert alice.put("/policies/ns:guests", json=given).status_code == 201
        assert alice.put("/things/ns:room", json={"policyId": "ns:guests"}).status_code == 201
        bob = site.of("bob")
        assert bob.get("/things/ns:room").status_code == 200
        before = json.loads(socket.recv(timeout=LONG))
        assert before["topic"] == "ns/guests/policies/announcements/subjectDeletion"
        expiry = alice.get("/policies/ns:guests").json()["entries"]["GUEST"]["subjects"]["nginx:bob"]["expiry"]
        assert before["value"] == {"deleteAt": expiry, "subjectIds": ["nginx:bob"]}
        deleted = json.loads(socket.recv(timeout=LONG))
        assert deleted["value"]["subjectIds"] == ["nginx:bob"]
        assert bob.get("/things/ns:room").status_code == 404
        assert alice.get("/policies/ns:guests/entries/GUEST/subjects").json() == {}


@pytest.mark.conformance("ditto.policy.announcement.acknowledged")
def test_an_announcement_is_repeated_until_it_is_acknowledged(site: Site, alice: httpx.Client) -> None:
    acks = {"labels": ["bob:got-it"], "timeout": "200ms"}
    with socket_of(site, "bob", "?declared-acks=bob:got-it") as socket:
        given = policy(GUEST=guest("bob", 3600, whenDeleted=True, requestedAcks=acks))
        assert alice.put("/policies/ns:acked", json=given).status_code == 201
        assert alice.delete("/policies/ns:acked/entries/GUEST").status_code == 204
        first, second = (json.loads(socket.recv(timeout=LONG)) for _ in range(2))
        assert first["value"] == second["value"]
        assert second["headers"]["requested-acks"] == ["bob:got-it"]
        answer = {
            "topic": "ns/acked/policies/acks/bob:got-it",
            "headers": {"correlation-id": second["headers"]["correlation-id"]},
            "path": "/",
            "status": 200,
        }
        socket.send(json.dumps(answer))
        with pytest.raises(TimeoutError):
            socket.recv(timeout=1)


@pytest.mark.conformance("ditto.policy.tokenIntegration")
def test_a_token_adds_its_subject_until_it_expires(site: Site, alice: httpx.Client) -> None:
    execute = {"policy:/entries/APP/actions": {"grant": ["EXECUTE"], "revoke": []}}
    app = {
        "subjects": {"idp:bob": {"type": "t"}},
        "resources": {"thing:/": {"grant": ["READ"], "revoke": []}, **execute},
    }
    assert alice.put("/policies/ns:tokens", json=policy(APP=app)).status_code == 201
    expires = int(time.time()) + 600
    token = jwt.encode({"aud": AUDIENCE, "sub": "bob", "exp": expires}, SECRET, "HS256")
    bob = site.client(authorization=f"Bearer {token}")
    place = "/policies/ns:tokens/entries/APP"
    made = bob.post(f"{place}/actions/activateTokenIntegration")
    assert made.status_code == 204, made.text
    subjects = alice.get(f"{place}/subjects").json()
    assert datetime.fromisoformat(subjects[f"integration:APP:{AUDIENCE}"]["expiry"]).timestamp() == expires
    assert bob.post("/policies/ns:tokens/actions/deactivateTokenIntegration").status_code == 204
    assert list(alice.get(f"{place}/subjects").json()) == ["idp:bob"]
    refused = alice.post(f"{place}/actions/activateTokenIntegration")
    assert (refused.status_code, refused.json()["error"]) == (400, "policies:action.failed")
    other = site.bearer({"sub": "carol", "exp": expires}).post(f"{place}/actions/activateTokenIntegration")
    assert other.status_code == 404


@pytest.mark.conformance("ditto.policy.imports")
def test_policies_are_imported_and_shared_by_namespace(site: Site, alice: httpx.Client) -> None:
    readers = {"entries": {"READERS": entry("bob", thing=["READ"]), **policy()["entries"]}}
    assert alice.put("/policies/ns:root", json=readers).status_code == 201
    assert alice.put("/policies/ns:importing", json={**policy(), "imports": {"ns:root": {}}}).status_code == 201
    assert alice.put("/things/ns:imported", json={"policyId": "ns:importing"}).status_code == 201
    assert alice.put("/things/shared.x:thing", json={}).status_code == 201
    bob = site.of("bob")
    assert bob.get("/things/ns:imported").status_code == 200
    assert bob.get("/things/shared.x:thing").status_code == 200
    found = bob.get("/search/things", params={"filter": 'in(thingId,"ns:imported","shared.x:thing")'}).json()["items"]
    assert [each["thingId"] for each in found] == ["ns:imported", "shared.x:thing"]
    shown = alice.get("/policies/ns:importing", params={"policy-view": "resolved"})
    assert "imported-ns:root-READERS" in shown.json()["entries"]
    assert "etag" not in shown.headers
    assert alice.delete("/policies/ns:root/entries/READERS").status_code == 204
    assert bob.get("/things/ns:imported").status_code == 404


@pytest.mark.conformance("ditto.http.preAuthenticated")
def test_a_proxy_names_its_user_and_nobody_else_does(site: Site, tmp_path: Path) -> None:
    named = site.client(None, **{"x-ditto-pre-authenticated": "nginx:dora, groups:staff"})
    assert named.get("/whoami").json() == {"defaultSubject": "nginx:dora", "subjects": ["nginx:dora", "groups:staff"]}
    assert site.client(None, **{"x-ditto-pre-authenticated": "dora"}).get("/whoami").status_code == 401
    with Site(tmp_path, {"ditto.pre_authenticated_header": "X-Ditto-Pre-Authenticated"}) as direct:
        answer = direct.client(None, **{"x-ditto-pre-authenticated": "nginx:dora"}).get("/whoami")
        assert answer.status_code == 401
        assert "proxies" in answer.json()["message"]
        both = direct.client(("alice", password_of("alice")), **{"x-ditto-pre-authenticated": "nginx:dora"})
        assert both.get("/whoami").status_code == 401


@pytest.mark.conformance("ditto.policy.placeholder")
def test_a_policy_says_who_sends_it_without_a_name(alice: httpx.Client) -> None:
    everything = {f"{kind}:/": {"grant": ["READ", "WRITE"], "revoke": []} for kind in ("thing", "policy", "message")}
    owner = {"subjects": {"{{ request:subjectId }}": {"type": "me"}}, "resources": everything}
    thing = {"_policy": {"entries": {"OWNER": owner}}}
    assert alice.put("/things/ns:mine", json=thing).status_code == 201
    assert alice.get("/policies/ns:mine/entries/OWNER/subjects").json() == {"nginx:alice": {"type": "me"}}
    path = "/policies/ns:mine/entries/OWNER/subjects/%7B%7B%20request:subjectId%20%7D%7D"
    assert alice.put(path, json={"type": "changed"}).status_code == 204
    assert alice.get("/policies/ns:mine/entries/OWNER/subjects/nginx:alice").json() == {"type": "changed"}
    refused = alice.put("/policies/ns:mine/entries/OWNER/subjects/%7B%7B%20thing:id%20%7D%7D", json={})
    assert (refused.status_code, refused.json()["error"]) == (400, "placeholder:placeholder.notresolvable")
