"""Sessions of the TLEX hub, ended or asked to reconnect by an administrator, with peers on real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.wire.tlex.datagrams import Bye, Reconnect
from tests.doors.tlex.site import Site
from tests.support.administration import Answer, ask, write_users


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Site]:
    write_users(tmp_path / "users")
    # Peers send nothing while an administrator is busy.
    patient = {"tlex.tlc.keep_alive_millis": 60_000, "tlex.broker.keep_alive_millis": 60_000}
    with Site(tmp_path, {"admin.users": str(tmp_path / "users"), **patient}) as running:
        yield running


def request(hub: Site, method: str, path: str = "") -> Answer:
    return ask(hub.background.api_port, method, f"/tlex/sessions{path}")


def test_sessions_are_listed_without_their_tokens(hub: Site) -> None:
    (identifier,) = hub.tlcs(1)
    peer = hub.controller(identifier)
    answer = request(hub, "GET")
    assert answer.body["total"] == 1
    (found,) = answer.body["sessions"]
    assert (found["domain"], found["type"], found["state"]) == ("test", "TLC", "live")
    assert found["names"] == [identifier]
    assert peer.token
    assert peer.token not in str(answer.body)


def test_a_session_is_ended_with_a_word(hub: Site) -> None:
    (identifier,) = hub.tlcs(1)
    peer = hub.controller(identifier)
    (found,) = request(hub, "GET").body["sessions"]
    assert request(hub, "DELETE", f"/{found['id']}").status == 204
    peer.expect(Bye)
    assert request(hub, "GET").body["total"] == 0
    answer = request(hub, "DELETE", f"/{found['id']}")
    assert (answer.status, answer.error) == (404, f"TLEX session {found['id']}: there is no such session")


def test_a_session_whose_peer_is_awaited_is_ended_but_cannot_reconnect(hub: Site) -> None:
    (identifier,) = hub.tlcs(1)
    hub.session("TLC", identifier, protocol="TCPStreaming_Singleplex")
    (found,) = request(hub, "GET").body["sessions"]
    answer = request(hub, "POST", f"/{found['id']}/reconnect")
    assert answer.status == 409
    assert answer.error == f"TLEX session {found['id']}: it is pending; only one that is live can reconnect"
    assert request(hub, "DELETE", f"/{found['id']}").status == 204


def test_a_peer_is_asked_to_come_again(hub: Site) -> None:
    (identifier,) = hub.tlcs(1)
    peer = hub.controller(identifier)
    (found,) = request(hub, "GET").body["sessions"]
    assert request(hub, "POST", f"/{found['id']}/reconnect").body["state"] == "leaving"
    peer.expect(Reconnect)
    # Its controller can be had at once.
    hub.controller(identifier)
    assert request(hub, "POST", f"/{found['id']}/reconnect").status == 409
