"""Nobody gets anywhere without a login, and roles have their rights: over real sockets; tokens and pauses by a clock
that the test moves.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from penstock.adapters.access.users import UserFile
from penstock.services.admin.logins import MAX_WAITING, AdminRole, Logins
from penstock.services.admin.pauses import FIRST_PAUSE, FORGIVEN_AFTER, FREE_MISTAKES, LONGEST_PAUSE, Pauses
from penstock.services.admin.problems import AdminProblem
from penstock.testing.clock import Clock
from tests.services.admin.site import AdminSite
from tests.support.administration import basic, write_users

PATHS = ["/me", "/sessions", "/sessions/S0123456789abcdef", "/items", "/blocks", "/openapi.json", "/nothing", "/"]


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param("Digest abc", id="another scheme"),
        pytest.param("Basic !!!", id="no Base64"),
        pytest.param("Basic cm9vdA==", id="no colon"),
        pytest.param("Basic /////w==", id="no UTF-8"),
        pytest.param("Bearer abc", id="a token of nobody"),
    ],
)
def test_nothing_is_answered_without_a_login(site: AdminSite, authorization: str | None) -> None:
    for path in PATHS:
        answer = site.ask("GET", path, authorization=authorization)
        assert answer.status == 401, path
        assert answer.error
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert answer.headers["cache-control"] == "no-store"


def test_a_wrong_password_and_an_unknown_user_are_answered_alike_and_logged_without_the_password(
    site: AdminSite, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        answers = [site.ask("GET", "/me", authorization=basic(name, "guess-work")) for name in ("root", "stranger")]
    assert [(each.status, each.error) for each in answers] == [(401, "unknown user or wrong password")] * 2
    logged = [record.__dict__["fields"] for record in caplog.records if record.message == "administration refused"]
    assert [fields["user"] for fields in logged] == ["root", "stranger"]
    assert "guess-work" not in str(logged)


def test_who_goes_on_guessing_has_to_wait_and_others_do_not(site: AdminSite) -> None:
    token = site.ask("POST", "/login").body["token"]
    for _ in range(FREE_MISTAKES + 1):
        assert site.ask("GET", "/me", authorization=basic("root", "wrong")).status == 401
    waits = site.ask("GET", "/me", authorization=basic("root", "wrong"))
    assert waits.status == 429
    assert waits.error == "too many failed logins from this address"
    assert int(waits.headers["retry-after"]) >= 1
    # Also with the right password, or the guess would be told by that.
    assert site.ask("GET", "/me").status == 429
    assert site.ask("GET", "/me", authorization=f"Bearer {token}").status == 200


def test_a_viewer_may_look_and_nothing_else(site: AdminSite) -> None:
    eve = basic("eve")
    with site.exchange.stream() as stream:
        name = stream.session[:17]
        assert site.ask("GET", "/me", authorization=eve).body == {"user": "eve", "role": "viewer"}
        assert site.ask("GET", "/sessions", authorization=eve).body["total"] == 1
        changes: list[tuple[str, str, object]] = [
            ("DELETE", f"/sessions/{name}", None),
            ("PUT", f"/sessions/{name}/bandwidth", {"max_kbps": 1}),
            ("DELETE", f"/sessions/{name}/bandwidth", None),
            ("DELETE", f"/sessions/{name}/subscriptions/1", None),
            ("PUT", f"/sessions/{name}/subscriptions/1/frequency", {"max_per_second": 1}),
            ("PUT", "/blocks", {"scope": "all"}),
            ("DELETE", "/blocks?scope=all", None),
            ("POST", "/drain", {}),
            ("POST", "/reload", None),
            ("POST", "/adapters/clear", {"adapter": "TEST/HAND"}),
            ("DELETE", "/tlex/sessions/x", None),
        ]
        for method, path, body in changes:
            answer = site.ask(method, path, body, eve)
            assert answer.status == 403, (method, path)
            assert answer.error == "user eve has the role viewer and may only look; this needs admin"
        assert not site.server.gate.blocks
        assert not site.server.gate.draining
        assert site.ask("GET", f"/sessions/{name}").body["is_ruled"] is False


def test_a_user_without_a_role_here_may_not_even_look(site: AdminSite) -> None:
    answer = site.ask("GET", "/me", authorization=basic("bob"))
    assert answer.status == 403
    assert answer.error == "user bob has no role for administration; expected admin or viewer"


def test_a_token_is_as_good_as_the_password_until_it_is_given_back(site: AdminSite) -> None:
    given = site.ask("POST", "/login", authorization=basic("eve")).body
    assert given["user"] == "eve"
    assert given["role"] == "viewer"
    assert given["seconds"] == 3600
    bearer = f"Bearer {given['token']}"
    assert site.ask("GET", "/me", authorization=bearer).body["user"] == "eve"
    assert site.ask("PUT", "/blocks", {"scope": "all"}, bearer).status == 403
    assert site.ask("DELETE", "/login", authorization=bearer).status == 204
    assert site.ask("GET", "/me", authorization=bearer).status == 401
    assert site.ask("DELETE", "/login").status == 409


def test_a_user_who_is_removed_or_gets_another_password_or_role_is_that_at_once(site: AdminSite) -> None:
    bearer = f"Bearer {site.ask('POST', '/login').body['token']}"
    write_users(site.users, {"root": "viewer", "eve": "viewer"})
    assert site.ask("GET", "/me", authorization=bearer).body["role"] == "viewer"
    write_users(site.users, {"eve": "viewer"})
    assert site.ask("GET", "/me", authorization=bearer).status == 401
    assert site.ask("GET", "/me").status == 401


def test_a_page_of_another_origin_may_not_change_anything(site: AdminSite) -> None:
    body = {"scope": "all"}
    for origin in ("https://evil.example", "null", f"http://{site.host}:1"):
        answer = site.ask("PUT", "/blocks", body, headers={"Origin": origin})
        assert answer.status == 403
        assert "pages of this origin may not do this" in answer.error
    assert not site.server.gate.blocks
    own = f"http://{site.host}:{site.api_port}"
    assert site.ask("PUT", "/blocks", body, headers={"Origin": own}).status == 200


@pytest.mark.config({"api.cors.allow_origins": ["https://ops.example"]})
def test_a_page_of_an_origin_that_is_named_may(site: AdminSite) -> None:
    assert site.ask("PUT", "/blocks", {"scope": "all"}, headers={"Origin": "https://ops.example"}).status == 200


def test_a_body_that_is_too_long_is_refused(site: AdminSite) -> None:
    answer = site.ask("PUT", "/blocks", b" " * 70_000)
    assert answer.status == 413
    assert answer.error == "the body has more than 65536 bytes, the most allowed"


@pytest.mark.config({"admin.users": ""})
def test_without_a_file_of_users_nobody_may(site: AdminSite) -> None:
    answer = site.ask("GET", "/me")
    assert answer.status == 401
    assert answer.error == "administration is disabled: admin.users is empty in the server's configuration"


# -- by a clock that the test moves ---------------------------------------------------------------------------------


@pytest.fixture
def users(tmp_path: Path) -> UserFile:
    write_users(tmp_path / "users")
    file = UserFile(str(tmp_path / "users"))
    file.load()
    return file


def test_a_token_runs_out(users: UserFile) -> None:
    clock = Clock()

    async def main() -> None:
        logins = Logins(users, 60.0, clock)
        root = await logins.identify(basic("root"), "1.2.3.4")
        assert root.role is AdminRole.ADMIN
        token = f"Bearer {await logins.issue(root)}"
        clock.advance(59.9)
        assert (await logins.identify(token, "1.2.3.4")).name == "root"
        clock.advance(0.1)
        with pytest.raises(AdminProblem, match="has expired") as refused:
            await logins.identify(token, "1.2.3.4")
        assert refused.value.status == 401
        assert logins.refused == 1

    asyncio.run(main())


def test_many_guesses_at_once_do_not_get_around_the_pause(users: UserFile) -> None:
    async def main() -> list[int]:
        logins = Logins(users, 60.0, Clock())
        guesses = [logins.identify(basic("root", "wrong"), "1.2.3.4") for _ in range(MAX_WAITING + 10)]
        found = await asyncio.gather(*guesses, return_exceptions=True)
        assert (await logins.identify(basic("root"), "5.6.7.8")).name == "root"
        return [each.status for each in found if isinstance(each, AdminProblem)]

    statuses = asyncio.run(main())
    assert statuses.count(401) == FREE_MISTAKES + 1
    assert statuses.count(429) == MAX_WAITING + 10 - FREE_MISTAKES - 1


def test_pauses_double_up_to_the_longest_and_are_forgiven() -> None:
    pauses, now = Pauses(), 100.0
    expected = [0.0] * FREE_MISTAKES
    while not expected or expected[-1] < LONGEST_PAUSE:
        step = len(expected) - FREE_MISTAKES
        expected.append(min(LONGEST_PAUSE, FIRST_PAUSE * 2**step))
    for pause in [*expected, LONGEST_PAUSE, LONGEST_PAUSE]:
        pauses.failed("a", now)
        assert pauses.left("a", now) == pause
        assert pauses.left("a", now + pause) == 0.0
        assert pauses.left("b", now) == 0.0
        now += pause
    now += FORGIVEN_AFTER
    pauses.failed("a", now)
    assert pauses.left("a", now) == 0.0


def test_a_right_login_ends_the_pause() -> None:
    pauses = Pauses()
    for _ in range(10):
        pauses.failed("a", 0.0)
    pauses.succeeded("a")
    assert pauses.left("a", 0.0) == 0.0
