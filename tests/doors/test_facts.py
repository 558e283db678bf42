"""What adapters are told of a client besides who it is: its request, the listener it uses, and the library."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from websockets.sync.client import connect

from penstock.adapters.access.metadata import AccessMetadata
from penstock.doors.libraries import NAMES, UNKNOWN, VERSIONS, Library, library
from penstock.kernel.ports import Admission, ClientFacts
from tests.adapters.access.world import password_of
from tests.doors.ditto.site import Site
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange
from tests.support.tls import TLS, trusting_context


def test_a_client_comes_by_the_listener_that_it_has_connected_to() -> None:
    with BackgroundServer(TLS) as server:
        for exchange in (
            Exchange(server.host, server.port),
            Exchange(server.host, server.tls_port, trusting_context()),
        ):
            exchange.stream().http.close()
        with Exchange(server.host, server.port).socket() as socket:
            socket.create()
        assert [client.listener for client in server.metadata.clients] == ["stream", "stream.tls", "stream"]


def test_every_request_for_a_session_has_an_identifier_of_its_own(server: BackgroundServer) -> None:
    exchange = Exchange(server.host, server.port)
    for _ in range(3):
        exchange.stream().http.close()
    found = {client.request_id for client in server.metadata.clients}
    assert len(found) == 3
    assert "" not in found


def test_a_client_of_the_older_protocol_has_the_same_facts(server: BackgroundServer) -> None:
    body = "LS_op2=create&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg&LS_adapter_set=TEST&LS_polling=true"
    with Exchange(server.host, server.port).http() as http:
        http.post("create_session", body, query="")
        http.read_head()
        assert http.read_body().startswith(b"OK\r\n")
    (client,) = server.metadata.clients
    assert (client.listener, client.library, client.library_version) == ("stream", "generic_client", None)
    assert client.request_id


def test_a_client_of_the_api_port_comes_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[ClientFacts] = []
    admit = AccessMetadata.authenticate

    async def authenticate(
        self: AccessMetadata, user: str | None, password: str | None, client: ClientFacts
    ) -> Admission:
        clients.append(client)
        return await admit(self, user, password, client)

    monkeypatch.setattr(AccessMetadata, "authenticate", authenticate)
    with Site(tmp_path) as site:
        assert site.of("alice").get("/things/site:none").status_code == 404
        login = "Basic " + b64encode(f"bob:{password_of('bob')}".encode()).decode()
        with connect(f"ws://{site.host}:{site.api_port}/ws/2", additional_headers={"authorization": login}):
            pass
    assert [client.listener for client in clients] == ["api", "api"]
    assert len({client.request_id for client in clients} - {""}) == 2


def test_of_every_version_that_is_known_the_library_is_known() -> None:
    assert all(library(client_id) == Library(library(client_id).name, VERSIONS[client_id]) for client_id in VERSIONS)
    assert all(library(client_id).name is not None for client_id in VERSIONS)


def test_no_library_begins_as_another_does() -> None:
    assert [one for one in NAMES for other in NAMES if one != other and other.startswith(one)] == []


@pytest.mark.parametrize("client_id", [None, "", "v", "Penstock", "mgQ", "V Wntytg4pkpW3"])
def test_what_is_not_known_is_not_guessed(client_id: str | None) -> None:
    assert library(client_id) == UNKNOWN
