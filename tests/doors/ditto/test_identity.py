"""Who is let in as whom: passwords, tokens, the demo's user, and what is remembered of them."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path

import httpx
import pytest

from penstock.doors.ditto import identity as room
from penstock.doors.ditto.identity import DittoIdentity, ShownCredentials
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.ports import Admission, ClientFacts, Grant, SessionFacts, Wish
from penstock.services.errors import StartError
from penstock.testing.clock import Clock
from penstock.transport.locality import Locality
from penstock.wire.ditto.errors import DittoError
from tests.adapters.access.world import HOUR, password_of
from tests.doors.ditto.site import CONFIGURATION, Site

HERE = ClientFacts("127.0.0.1", False, {})


def subject(client: httpx.Client) -> str:
    """Whom the server takes a client for: whom it grants a new thing to."""
    id = client.post("/things").json()["thingId"]
    (name,) = client.get(f"/policies/{id}/entries/DEFAULT/subjects").json()
    return str(name)


def test_a_password_makes_a_subject_of_nginx(site: Site) -> None:
    assert subject(site.of("alice")) == "nginx:alice"


def test_a_token_makes_a_subject_of_its_issuer(site: Site) -> None:
    assert subject(site.bearer({"sub": "alice", "exp": time.time() + HOUR})) == "idp:alice"


def test_a_token_in_place_of_a_password_is_still_a_token(site: Site) -> None:
    token = site.bearer({"sub": "alice", "exp": time.time() + HOUR}).headers["authorization"].removeprefix("Bearer ")
    assert subject(site.client(("alice", token))) == "idp:alice"


def test_password_and_token_of_one_name_are_two_subjects(site: Site) -> None:
    site.of("alice").put("/things/ns:hers", json={})
    assert site.bearer({"sub": "alice", "exp": time.time() + HOUR}).get("/things/ns:hers").status_code == 404


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff:x").decode(),
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b"alice:").decode(),
        "Basic " + base64.b64encode(b":alice's password").decode(),
        "Basic " + base64.b64encode(b"alice:wrong").decode(),
        "Basic " + base64.b64encode(b"nobody:x").decode(),
        "Basic " + base64.b64encode(b"ditto:ditto").decode(),
        "Bearer",
        "Bearer x",
        "Bearer a.b.c",
        "Digest x",
    ],
)
def test_all_others_are_not_let_in(site: Site, header: str | None) -> None:
    client = site.client() if header is None else site.client(authorization=header)
    answer = client.get("/things/ns:a")
    assert (answer.status_code, answer.json()["error"]) == (401, "gateway:authentication.failed")
    assert answer.headers.get_list("www-authenticate") == ['Basic realm="Penstock"', "Bearer"]


def test_tokens_that_expired_or_are_of_others_are_not_let_in(site: Site) -> None:
    for client in (
        site.bearer({"sub": "alice", "exp": time.time() - HOUR}),
        site.bearer({"sub": "alice"}),
        site.bearer({"exp": time.time() + HOUR}),
        site.bearer({"sub": "alice", "exp": time.time() + HOUR}, secret="another secret of thirty-two characters!"),
    ):
        assert client.get("/things/ns:a").status_code == 401


def test_a_set_that_does_not_know_its_users_does_not_do(tmp_path: Path) -> None:
    nameless = CONFIGURATION.replace('users = "users"\n', "").replace(
        'tokens = { secret_file = "secret", audience = "penstock" }\n', ""
    )
    nameless = nameless.replace('users = ["alice"]\n', "").replace('users = ["bob"]\n', "")
    with pytest.raises(
        StartError, match=r"ditto\.adapter_set = SITE: expected a set whose metadata adapter authenticates"
    ):
        Site(tmp_path, configuration=nameless).__enter__()


# -- the demo ----------------------------------------------------------------------------------------------------------


def demo(*hosts: str) -> DittoIdentity:
    """That of a server with ports 8080 and 8081."""
    return DittoIdentity(
        lambda name: None, "", "token", Locality(hosts or ("127.0.0.1",), lambda: (8080, 8081)).includes
    )


def login(
    identity: DittoIdentity, user: str | None, password: str, address: str = "127.0.0.1", **headers: str
) -> tuple[str, ...]:
    named = {name.replace("_", "-"): value for name, value in {"host": "localhost:8081", **headers}.items()}
    credentials = ShownCredentials(user, password, ClientFacts(address, False, named))
    return asyncio.run(identity.login(credentials)).caller.names


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_the_user_of_the_demo_is_let_in_from_this_machine(address: str) -> None:
    assert login(demo(), "ditto", "ditto", address) == ("nginx:ditto",)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.7", "::ffff:10.0.0.1", "2001:db8::1", "", "localhost"])
def test_the_user_of_the_demo_is_let_in_from_nowhere_else(address: str) -> None:
    with pytest.raises(DittoError) as refused:
        login(demo(), "ditto", "ditto", address)
    assert refused.value.status == 401


@pytest.mark.parametrize("host", ["localhost:8080", "LocalHost:8081", "127.0.0.1:8081", "127.1.2.3:8080", "[::1]:8081"])
def test_the_user_of_the_demo_asks_for_this_machine_by_any_of_its_names(host: str) -> None:
    assert login(demo(), "ditto", "ditto", host=host) == ("nginx:ditto",)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": ""},
        {"host": "localhost"},
        {"host": "localhost:9000"},
        {"host": "127.0.0.1:80"},
        {"host": "localhost:x"},
        {"host": "[::1"},
        {"host": "www.example.com"},
        {"host": "www.example.com:8081"},
        {"host": "localhost.example.com:8081"},
        {"host": "10.0.0.1:8081"},
        {"forwarded": "for=10.0.0.1"},
        {"via": "1.1 proxy"},
        {"x_forwarded_for": "127.0.0.1"},
        {"x_forwarded_anything": ""},
        {"x_real_ip": "10.0.0.1"},
    ],
)
def test_the_user_of_the_demo_is_not_let_in_by_what_a_proxy_passes_on(headers: dict[str, str]) -> None:
    with pytest.raises(DittoError):
        login(demo(), "ditto", "ditto", **headers)


@pytest.mark.parametrize("hosts", [("0.0.0.0",), ("127.0.0.1", "::"), ("192.168.1.7", "127.0.0.1"), ("example.com",)])
def test_a_server_that_others_can_reach_has_no_user_of_the_demo(hosts: tuple[str, ...]) -> None:
    with pytest.raises(DittoError):
        login(demo(*hosts), "ditto", "ditto")


@pytest.mark.parametrize(("user", "password"), [("ditto", "x"), ("x", "ditto"), (None, "ditto"), ("ditto", "\ud800")])
def test_the_demo_has_no_other_users(user: str | None, password: str) -> None:
    with pytest.raises(DittoError):
        login(demo(), user, password)


# -- what is remembered ------------------------------------------------------------------------------------------------


class Keeper:
    """A metadata adapter that counts."""

    vouches = True

    def __init__(self, is_constant: bool = True, time_to_live: float | None = None) -> None:
        self.is_constant = is_constant
        self.asked = 0
        self.refusal: Reason | None = None
        self._time_to_live = time_to_live

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        self.asked += 1
        if self.refusal is not None:
            raise Refusal(self.refusal, "no")
        if password != "right":
            raise Refusal(Reason.CREDENTIALS, "no")
        return Admission(user=user, time_to_live=self._time_to_live)

    async def judge(self, session: SessionFacts, wish: Wish) -> Grant:
        raise NotImplementedError


def kept_by(keeper: Keeper, clock: Clock | None = None) -> DittoIdentity:
    return DittoIdentity(lambda name: keeper, "SET", "token", lambda client: False, clock or Clock())


def test_what_was_right_is_not_asked_again_for_a_while() -> None:
    keeper, clock = Keeper(), Clock()
    identity = kept_by(keeper, clock)
    for _ in range(3):
        assert login(identity, "alice", "right") == ("nginx:alice",)
    assert keeper.asked == 1
    clock.advance(room.REMEMBERED_SECONDS)
    login(identity, "alice", "right")
    assert keeper.asked == 2


def test_what_was_wrong_is_asked_every_time() -> None:
    keeper = Keeper()
    identity = kept_by(keeper)
    login(identity, "alice", "right")
    for user, password in (("alice", "wrong"), ("alice", "right "), ("alic", "eright"), ("alice", "wrong")):
        with pytest.raises(DittoError):
            login(identity, user, password)
    assert keeper.asked == 5


def test_an_adapter_that_looks_at_more_than_the_password_is_asked_every_time() -> None:
    keeper = Keeper(is_constant=False)
    identity = kept_by(keeper)
    login(identity, "alice", "right")
    login(identity, "alice", "right", "10.0.0.1")
    assert keeper.asked == 2


def test_what_is_remembered_does_not_outlive_its_token() -> None:
    clock = Clock()
    identity = kept_by(Keeper(time_to_live=5.0), clock)
    login(identity, "alice", "right")
    clock.advance(6)
    with pytest.raises(DittoError) as refused:
        login(identity, "alice", "right")
    assert refused.value.status == 401


def test_few_are_remembered() -> None:
    keeper = Keeper()
    identity = kept_by(keeper)
    for number in range(room.MAX_REMEMBERED + 1):
        login(identity, f"user{number}", "right")
    assert len(identity._remembered) == room.MAX_REMEMBERED


@pytest.mark.parametrize("reason", [Reason.AUTHORITY_UNAVAILABLE, Reason.AUTHORITY_ERROR])
def test_a_keeper_who_is_away_is_not_a_wrong_password(reason: Reason) -> None:
    keeper = Keeper()
    keeper.refusal = reason
    with pytest.raises(DittoError) as refused:
        login(kept_by(keeper), "alice", "right")
    assert refused.value.status == 503


def test_passwords_are_not_printed() -> None:
    assert "right" not in repr(ShownCredentials("alice", "right", HERE))
    assert password_of("alice") not in repr(ShownCredentials("alice", password_of("alice"), HERE))
