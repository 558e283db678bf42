from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from penstock.config import ConfigError, load
from penstock.doors.errors import DoorError
from penstock.doors.tlex.door import TlexDoor
from penstock.doors.tlex.settings import settings_of
from penstock.exchange.authorization import Role
from penstock.exchange.settings import HubSettings
from penstock.server import Server
from penstock.services.errors import StartError
from penstock.wire.tlex.datagrams import Bye, Unknown
from penstock.wire.tlex.vocabulary import TlcType
from tests.doors.tlex.site import Site, named
from tests.exchange.world import TLC, A, World


def test_the_defaults_of_the_configuration_are_those_of_the_hub() -> None:
    found = settings_of(load(None, {}).config.tlex)
    expected = HubSettings(reconnect_grace_seconds=2.0)
    assert found == expected


@pytest.mark.config({"tlex.poll_millis": 50})
def test_controllers_that_others_register_and_remove_are_there_and_gone_soon(site: Site) -> None:
    uuid = site.store.add_tlc("test", "COMMAND1", TlcType.TCP_STREAMING, site.account("ours")).uuid
    deadline = time.monotonic() + 10
    while site.post("TLC", "COMMAND1").status_code != 200:
        assert time.monotonic() < deadline
    broker = site.join("Broker", "COMMAND1")
    site.store.remove_tlc(uuid)
    assert broker.bye() == "TLC deleted"


@pytest.mark.config({"tlex.poll_millis": 50})
def test_sessions_end_when_their_authorization_token_is_revoked(site: Site) -> None:
    a, b = site.tlcs(2)
    theirs, ours = site.join("Broker", a, account="others"), site.join("Broker", b)
    for authorization in site.store.authorizations(site.account("others")):
        for token in site.store.tokens(authorization.uuid):
            site.store.revoke(token.uuid, 1)
    assert theirs.bye() == "authorization token revoked"
    ours.synchronize()


def look(site: Site) -> None:
    asyncio.run_coroutine_threadsafe(site.door.look(), site.background._loop).result(10)


@pytest.mark.config({"tlex.poll_millis": 3_600_000})
def test_a_database_that_nobody_has_changed_is_not_read_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = site.tlcs(2)
    site.join("Broker", a)
    look(site)
    store, reads = site.door.store.store, list[str]()

    def noted(name: str, method: Callable[..., object]) -> Callable[..., object]:
        def read(*arguments: object) -> object:
            reads.append(name)
            return method(*arguments)

        return read

    monkeypatch.setattr(store, "tlcs", noted("tlcs", store.tlcs))
    monkeypatch.setattr(store, "good_tokens", noted("good_tokens", store.good_tokens))
    look(site)
    assert reads == []
    site.store.add_tlc("test", "COMMAND2", TlcType.TCP_STREAMING, site.account("ours"))
    look(site)
    assert reads == ["tlcs", "good_tokens"]
    # Its token may have been revoked after it was found to be good and before the session was there.
    site.session("Broker", b, account="others")
    look(site)
    assert reads.count("good_tokens") == 2


@pytest.mark.config({"tlex.session_log_days": 1})
def test_entries_of_sessions_that_ended_too_long_ago_are_deleted(site: Site) -> None:
    (a,) = site.tlcs(1)
    token = site.session("Broker", a)["token"]
    site.ask("DELETE", f"/sessions/{token}", Role.BROKER_ADMIN)
    assert len(site.ask("GET", "/sessionlogs", Role.BROKER_ADMIN).json()) == 1
    asyncio.run_coroutine_threadsafe(site.door.session_log.forget(), site.background._loop).result(10)
    assert len(site.store.session_logs(0, 2**53)) == 1

    (entry,) = site.store.session_logs(0, 2**53)
    site.store.forget_sessions(2**53)
    site.store.log_sessions([replace(entry, created=1, ended=2)])
    asyncio.run_coroutine_threadsafe(site.door.session_log.forget(), site.background._loop).result(10)
    assert site.store.session_logs(0, 2**53) == []


def test_what_ended_with_the_server_is_in_the_log(tmp_path: Path) -> None:
    with Site(tmp_path, {"tlex.reconnect_millis": 50}) as site:
        (a,) = site.tlcs(1)
        site.join("Broker", a)
        site.background.stop()
        (entry,) = site.store.session_logs(0, 2**53)
        assert entry.end_reason == "ADMIN_TERMINATION"


def test_a_server_that_goes_down_creates_no_sessions(site: Site) -> None:
    from penstock.doors.tlex.listener import instant

    (a,) = site.tlcs(1)
    site.background.call(lambda: site.door.hub.go_down(instant()))
    answer = site.post("Broker", a)
    assert (answer.status_code, answer.json()["status"]) == (503, 503)


def test_the_log_accounts_for_the_payloads_of_a_session_that_has_ended(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock.doors.tlex.session_log")
    (a,) = site.tlcs(1)
    controller, broker = site.join("TLC", a), site.join("Broker", a)
    controller.send(named(a, "one"), named(a, "two"), named("NOTTHERE", "x"), named(a, "x", 0xF0), Unknown(9, b""))
    controller.synchronize()
    broker.payload()
    for peer in (controller, broker):
        peer.send(Bye())
        assert peer.bye() is None
    ended = [each.fields for each in caplog.records if each.message == "tlex session ended"]  # type: ignore[attr-defined]
    assert [{name: value for name, value in each.items() if name != "session"} for each in ended] == [
        {"reason": "CLIENT_DISCONNECT", "received": 4, "sent": 0, "out_of_scope": 1, "reserved": 1, "unknown": 1},
        {"reason": "CLIENT_DISCONNECT", "received": 0, "sent": 2},
    ]
    assert controller.token not in caplog.text


def test_who_asks_after_the_door_is_closed_is_told_to_come_again(tmp_path: Path) -> None:
    settings = {"tlex.enabled": True, "tlex.port": 0, "tlex.store": f"sqlite:///{tmp_path / 'store.db'}"}

    async def ask() -> httpx.Response:
        door = await TlexDoor.open(load(None, settings).config, None)
        await door.stop()
        # The API port is closed later than the door.
        async with httpx.AsyncClient(transport=httpx.ASGITransport(door.rest), base_url="http://hub") as client:
            return await client.get("/tlcs", headers={"X-Authorization": "x"})

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["status"]) == (503, 503)


HOSTS = [
    ("127.0.0.1", "", "api.example", "127.0.0.1"),
    ("0.0.0.0", "", "api.example", "api.example"),
    ("0.0.0.0", "hub.example", "api.example", "hub.example"),
]


@pytest.mark.parametrize(("host", "announced", "asked", "told"), HOSTS)
def test_clients_are_told_a_host_that_they_can_reach(
    site: Site, host: str, announced: str, asked: str, told: str
) -> None:
    config = load(None, {"tlex.host": host, "tlex.announced_host": announced}).config

    world = World()
    world.register(A)
    session = world.open(TLC, A)

    async def host_for() -> str:
        return TlexDoor(config, site.door.store).address_of(session, asked)[0]

    assert asyncio.run(host_for()) == told


def test_a_database_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    overrides = {"tlex.enabled": True, "tlex.port": 0, "stream.port": 0, "api.port": 0}

    async def start(url: str) -> None:
        await Server(load(None, {**overrides, "tlex.store": url}).config, []).start()

    with pytest.raises(StartError, match=r"tlex\.store: expected a database URL"):
        asyncio.run(start(""))
    with pytest.raises(StartError, match=r"tlex\.store: the database cannot be opened: unable to open database file"):
        asyncio.run(start(f"sqlite:///{tmp_path}/missing/store.db"))
    with pytest.raises(ConfigError, match=r"tlex\.store: expected a database URL"):
        asyncio.run(start("nonsense"))


def test_a_port_that_is_taken_stops_the_start_and_leaves_nothing_open(site: Site, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    config = load(None, {"tlex.enabled": True, "tlex.port": site.door.ports.port, "tlex.store": url}).config

    async def start() -> None:
        await TlexDoor.open(config, None)

    with pytest.raises(DoorError, match=rf"cannot listen on 127\.0\.0\.1:{site.door.ports.port}"):
        asyncio.run(start())
