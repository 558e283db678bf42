"""Subjects that expire, and those that tokens bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.doors.ditto.answers import DittoAnswer
from penstock.twins.command import Caller
from penstock.twins.expiry import DEFAULT_GRANULARITY, deleted_with_notice, expiring, rounded_up
from penstock.twins.integration import TokenIntegration
from penstock.twins.registry import RegistrySettings
from penstock.wire.ditto.errors import DittoError
from tests.twins.world import (
    ALL,
    NOON,
    OWNER,
    READ,
    READER,
    SECOND,
    Answered,
    World,
    command,
    entry,
    event,
    policy_command,
)

POLICY = "ns:policy"
ADMIN = entry("nginx:owner", **{"thing:/": ALL, "policy:/": ALL})
SOON = "2023-11-14T22:23:21.5Z"


@pytest.fixture
def world() -> Iterator[World]:
    world = World(settings=RegistrySettings(expiry_granularity=10 * SECOND))
    world.ask(policy_command("create", value={"entries": {"ADMIN": ADMIN}}))
    yield world
    world.close()


def guest(**more: Any) -> dict[str, Any]:
    return {"subjects": {"nginx:reader": {"type": "guest", "expiry": SOON, **more}}, "resources": {"thing:/": READ}}


@pytest.mark.parametrize(
    ("text", "granularity", "expected"),
    [
        ("2023-01-01T10:00:00.1Z", 1, "2023-01-01T10:00:01Z"),
        ("2023-01-01T10:00:00Z", 3600, "2023-01-01T10:00:00Z"),
        ("2023-01-01T10:00:01+02:00", 3600, "2023-01-01T09:00:00Z"),
        ("2023-01-01T10:00:01Z", 86400, "2023-01-02T00:00:00Z"),
        ("1970-01-01T00:00:00Z", 3600, "1970-01-01T00:00:00Z"),
    ],
)
def test_an_expiry_is_rounded_up(text: str, granularity: int, expected: str) -> None:
    found, micros = rounded_up(text, granularity * SECOND)
    assert found == expected
    assert rounded_up(found, granularity * SECOND) == (found, micros)
    assert micros % (granularity * SECOND) == 0


def test_an_expiry_is_rounded_up_to_an_hour_unless_it_is_said_otherwise() -> None:
    assert rounded_up("2023-01-01T10:00:01Z", DEFAULT_GRANULARITY)[0] == "2023-01-01T11:00:00Z"


def test_a_subject_is_deleted_when_its_time_has_come(world: World) -> None:
    world.ask(policy_command("modify", "/entries/GUEST", guest()))
    world.ask(command("create", value={"policyId": POLICY}))
    stored = subjects_of(world, "GUEST")
    assert stored["nginx:reader"]["expiry"] == "2023-11-14T22:23:30Z"
    assert world.result(command("retrieve"), READER)[0] == 200
    answer = Answered()
    world.twins.expire(POLICY, answer.take)
    assert not answer.results
    world.now = NOON + 611 * SECOND
    world.told.clear()
    world.twins.expire(POLICY, answer.take)
    while not answer.results:
        world.turn()
    assert event(world.told[0]).path == "/entries/GUEST/subjects/nginx:reader"
    assert world.result(command("retrieve"), READER)[0] == 404
    world.restart()
    assert subjects_of(world, "GUEST") == {}


@pytest.mark.parametrize("expiry", ["tomorrow", 5, "2023-13-01T00:00:00Z"])
def test_an_expiry_must_be_a_time(expiry: Any) -> None:
    with pytest.raises(DittoError) as raised:
        policy_command("modify", "/entries/GUEST", {"subjects": {"a:b": {"type": "t", "expiry": expiry}}})
    assert raised.value.code == "policies:subjectexpiry.invalid"


def test_an_expiry_must_be_in_the_future(world: World) -> None:
    subject = {"type": "t", "expiry": "2020-01-01T00:00:00Z"}
    error = world.refused(policy_command("modify", "/entries/ADMIN/subjects/a:b", subject))
    assert (error.status, error.code) == (400, "policies:subjectexpiry.invalid")


def test_the_only_one_who_may_write_a_policy_cannot_expire(world: World) -> None:
    subject = {"type": "t", "expiry": SOON}
    error = world.refused(policy_command("modify", "/entries/ADMIN/subjects/nginx:owner", subject))
    assert (error.status, error.code) == (403, "policies:entry.modificationinvalid")


@pytest.mark.parametrize(
    "announcement",
    [
        {"beforeExpiry": "soon"},
        {"beforeExpiry": 5},
        {"whenDeleted": "yes"},
        {"requestedAcks": {"labels": ["a b"]}},
        {"requestedAcks": {"labels": ["my:label"], "timeout": "2h"}},
        {"later": True},
    ],
)
def test_an_announcement_must_be_understood(announcement: Any) -> None:
    with pytest.raises(DittoError) as raised:
        policy_command("modify", "/entries/GUEST", guest(announcement=announcement))
    assert raised.value.status == 400


def test_who_is_told_and_when() -> None:
    policy = {"entries": {"GUEST": guest(announcement={"beforeExpiry": "5m", "whenDeleted": True}), "ADMIN": ADMIN}}
    (found,) = expiring(policy)
    # Whoever does not expire is not in the way of others.
    assert list(expiring({"entries": {"ADMIN": ADMIN, **policy["entries"]}})) == [found]
    (silent,) = expiring({"entries": {"GUEST": guest()}})
    assert silent.announce_at is None
    assert found.announce_at == found.expiry - 300 * SECOND
    assert deleted_with_notice(policy, {"entries": {"ADMIN": ADMIN}}) == {"nginx:reader"}
    assert deleted_with_notice(policy, policy) == set()
    assert deleted_with_notice(policy, None) == {"nginx:reader"}


# -- token integration -------------------------------------------------------------------------------------------------

APP = Caller(("idp:app",))
ACTION = "policy:/entries/APP/actions/{}"
EXECUTE = {"grant": ["EXECUTE"], "revoke": []}


def subjects_of(world: World, label: str) -> dict[str, Any]:
    found: Any = world.ask(policy_command("retrieve", f"/entries/{label}/subjects")).value
    assert type(found) is dict
    return found


def integrate(world: World, caller: Caller = APP, *, on: bool = True, label: str | None = "APP") -> DittoAnswer:
    answer = Answered()
    wish = TokenIntegration(POLICY, label, {"APP": ("integration:APP:x",)}, SOON if on else None, "added")
    world.twins.integrate(wish, caller, answer.take)
    while not answer.results:
        world.turn()
    return answer.outcome


@pytest.fixture
def app(world: World) -> World:
    resources = {"thing:/": READ, "policy:/entries/APP": EXECUTE}
    world.ask(policy_command("modify", "/entries/APP", entry("idp:app", **resources)))
    return world


@pytest.mark.parametrize("label", ["APP", None])
def test_a_token_adds_its_subject_and_removes_it(app: World, label: str | None) -> None:
    assert integrate(app, label=label).status == 204
    subjects = subjects_of(app, "APP")
    assert subjects["integration:APP:x"] == {"type": "added", "expiry": "2023-11-14T22:23:30Z"}
    assert integrate(app, label=label).status == 204
    integrate(app, on=False, label=label)
    assert list(subjects_of(app, "APP")) == ["idp:app"]
    assert integrate(app, on=False, label=label).status == 204


def test_who_may_not_execute_the_action_is_refused(app: World) -> None:
    for caller, status in ((OWNER, 403), (READER, 404)):
        with pytest.raises(DittoError) as raised:
            integrate(app, caller)
        assert raised.value.status == status


def test_an_entry_that_does_not_have_the_caller_is_not_changed(app: World) -> None:
    app.ask(policy_command("modify", "/entries/OTHER", entry("idp:other", **{"policy:/entries/APP": EXECUTE})))
    with pytest.raises(DittoError) as raised:
        integrate(app, Caller(("idp:other",)))
    assert (raised.value.status, raised.value.code) == (404, "policies:action.failed")
