"""Connections to real brokers with TLS and a log-in: what is right works, what is wrong is told without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.services.connections.world import TwinServer, source, target
from tests.support.nats_server import NatsServer
from tests.support.secured_brokers import PASSWORD, USER, WRONG_PASSWORD, SecuredBroker, secured_broker
from tests.support.waiting import wait_until

TYPES = {"mqtt": "mqtt-5", "kafka": "kafka", "nats": "nats"}
SCHEMES = {"mqtt": "ssl", "kafka": "ssl", "nats": "tls"}

# What the status says.
NOT_LOGGED_IN = {"mqtt": "not authorized", "kafka": "Authentication failed", "nats": "Authorization Violation"}
NO_CLIENT_CERTIFICATE = {"mqtt": "certificate required", "kafka": "bad certificate", "nats": "certificate required"}

# Each of many connections is waited for until it was tried twice.
pytestmark = pytest.mark.timeout(400)

TEMPLATE = {
    "again": {
        "mappingEngine": "Template",
        "options": {
            "incoming": {
                "topic": "plant/heard/things/twin/commands/modify",
                "path": "/attributes/n",
                "value": "{value.value}",
            }
        },
    }
}


@pytest.fixture(scope="module", params=list(TYPES))
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinServer]:
    with TwinServer(tmp_path_factory.mktemp("server")) as made:
        made.make_policy()
        made.make_thing("plant:said")
        made.make_thing("plant:heard")
        yield made


def plain(password: str = PASSWORD) -> dict[str, str]:
    return {"type": "plain", "username": USER, "password": password}


def document(broker: SecuredBroker, address: str = "", **more: Any) -> dict[str, Any]:
    """Reads the topic `loop`."""
    return {
        "connectionType": TYPES[broker.kind],
        "uri": f"{SCHEMES[broker.kind]}://{address or broker.address}",
        "ca": broker.authority.pem,
        "credentials": plain(),
        "mappingDefinitions": TEMPLATE,
        "sources": [source("loop", payloadMapping=["again"])],
        **more,
    }


def saying(broker: SecuredBroker, **more: Any) -> dict[str, Any]:
    """Writes to the topic `loop`."""
    events = "_/_/things/twin/events?filter=eq(thingId,'plant:said')"
    return document(broker, sources=[], targets=[target("loop", events)], **more)


def check_traffic(server: TwinServer, number: int) -> None:
    """What is said in one thing is heard in the other, through the broker and two connections."""
    answer = server.twins.put("/things/plant:said/attributes/n", json=number)
    assert answer.status_code in (201, 204), answer.text
    server.wait_for("plant:heard/attributes/n", lambda found: found == number, f"{number} has come back")


def reason(server: TwinServer, id: str) -> str:
    return str(server.status(id).get("reason", ""))


def check_told(server: TwinServer, id: str, words: str) -> None:
    """It is told, and tried again."""
    wait_until(lambda: words in reason(server, id), f"{words!r} of {id}; it is {server.status(id)}")
    server.operator.post(f"/{id}/command", content="connectivity.commands:resetConnectionLogs")
    wait_until(lambda: any(words in entry["message"] for entry in server.logs(id)), "it is tried again")
    told = str(server.status(id)) + str(server.logs(id)) + server.operator.get(f"/{id}").text + server.log
    for secret in (PASSWORD, WRONG_PASSWORD, "PRIVATE KEY"):
        assert secret not in told


def test_messages_go_both_ways_and_wrong_ones_beside_disturb_nothing(broker: SecuredBroker, server: TwinServer) -> None:
    server.connect("hears", document(broker))
    server.connect("says", saying(broker))
    check_traffic(server, 1)
    wrong = {
        "password": (document(broker, credentials=plain(WRONG_PASSWORD)), NOT_LOGGED_IN[broker.kind]),
        "password-out": (saying(broker, credentials=plain(WRONG_PASSWORD)), NOT_LOGGED_IN[broker.kind]),
        "authority": (document(broker, ca=broker.stranger.pem), "certificate verify failed"),
        "no-authority": (document(broker, ca=""), "certificate verify failed"),
        "host": (document(broker, broker.misnamed), "certificate verify failed"),
    }
    for id, (made, _) in wrong.items():
        server.connect(id, made, wait=False)
    for id, (_, words) in wrong.items():
        check_told(server, id, words)
    wait_until(lambda: server.status("password")["liveStatus"] == "misconfigured", "a password does not mend itself")
    check_traffic(server, 2)
    assert server.status("hears")["liveStatus"] == server.status("says")["liveStatus"] == "open"
    # Mended, it is open at once, and the reason is gone.
    server.operator.delete("/hears")
    server.connect("password", document(broker))
    assert not reason(server, "password")
    check_traffic(server, 3)
    for id in ("says", *wrong):
        server.operator.delete(f"/{id}")


def test_a_trial_says_what_is_wrong(broker: SecuredBroker, server: TwinServer) -> None:
    def tried(made: dict[str, Any]) -> tuple[int, str]:
        answer = server.operator.post(server.connections, params={"dry-run": "true"}, json=made)
        return answer.status_code, answer.text

    assert tried(document(broker)) == (200, "")
    for made, words in (
        (document(broker, credentials=plain(WRONG_PASSWORD)), NOT_LOGGED_IN[broker.kind]),
        (document(broker, ca=broker.stranger.pem), "certificate verify failed"),
    ):
        status, text = tried(made)
        assert status == 504
        assert words in text
        assert WRONG_PASSWORD not in text


def test_a_client_is_known_by_its_certificate(broker: SecuredBroker, server: TwinServer) -> None:
    shown = {
        "type": "client-cert",
        "cert": broker.client.certificate.read_text(),
        "key": broker.client.private_key.read_text(),
    }
    server.connect("known", document(broker, broker.mutual, credentials=shown))
    server.connect("says", saying(broker, credentials=shown) | {"uri": f"{SCHEMES[broker.kind]}://{broker.mutual}"})
    check_traffic(server, 10)
    made = document(broker, broker.mutual)
    del made["credentials"]
    server.connect("unknown", made, wait=False)
    check_told(server, "unknown", NO_CLIENT_CERTIFICATE[broker.kind])
    for id in ("known", "says", "unknown"):
        server.operator.delete(f"/{id}")


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_kafka_knows_users_by_scram(broker: SecuredBroker, server: TwinServer) -> None:
    scram = {"saslMechanism": "SCRAM-SHA-512"}
    server.connect("scram", document(broker, specificConfig=scram))
    server.connect("says", saying(broker, specificConfig=scram))
    check_traffic(server, 20)
    server.connect("wrong", document(broker, specificConfig=scram, credentials=plain(WRONG_PASSWORD)), wait=False)
    check_told(server, "wrong", "Authentication failed")
    for id in ("scram", "says", "wrong"):
        server.operator.delete(f"/{id}")


def test_nats_knows_clients_by_a_token(tmp_path_factory: pytest.TempPathFactory, server: TwinServer) -> None:
    with NatsServer(tmp_path_factory.mktemp("token"), f'authorization {{ token: "{PASSWORD}" }}') as made:
        plainly = {"connectionType": "nats", "uri": made.url, "sources": [source("loop")]}
        server.connect("token", {**plainly, "credentials": {"type": "bearer", "token": PASSWORD}})
        wrong = {"type": "bearer", "token": WRONG_PASSWORD}
        server.connect("wrong-token", {**plainly, "credentials": wrong}, wait=False)
        check_told(server, "wrong-token", "Authorization Violation")
        assert server.status("token")["liveStatus"] == "open"
    for id in ("token", "wrong-token"):
        server.operator.delete(f"/{id}")
