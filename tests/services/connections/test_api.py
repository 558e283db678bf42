"""`/api/2/connections` with its store in SQLite and in PostgreSQL: what was acknowledged is kept, whatever ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.publish as publish
import pytest

from penstock.store.connections import ConnectionStore
from tests.services.connections.world import TwinServer, modify, mqtt, source
from tests.store.postgres import Postgres
from tests.support.mosquitto import Mosquitto

CREDENTIALS = {"type": "plain", "username": "ann", "password": "hush-hush"}
CLOSED = mqtt("127.0.0.1:9", sources=[source("in")], connectionStatus="closed", credentials=CREDENTIALS)
STORE = "ditto.connections_store"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'connections.db'}"
    running: Postgres = request.getfixturevalue("postgres")
    return running.other("connections")


def test_what_was_acknowledged_is_there_after_a_kill(url: str, tmp_path: Path) -> None:
    def documents() -> dict[str, Any]:
        return {each["id"]: each for each in server.operator.get(server.connections).json()}

    with TwinServer(tmp_path, **{STORE: url}) as server:
        made = server.operator.post(server.connections, json={**CLOSED, "name": "generated"})
        assert made.status_code == 201, made.text
        assert server.operator.put("/named", json=CLOSED).status_code == 201
        shown = server.operator.get("/named").json()
        assert shown["credentials"]["password"] == "*****"
        # What was shown can be sent back: the secret stays.
        assert server.operator.put("/named", json={**shown, "name": "changed"}).status_code == 204
        assert server.operator.post(server.connections, json={**CLOSED, "id": "named"}).status_code == 409
        assert server.operator.put("/gone", json=CLOSED).status_code == 201
        assert server.operator.delete("/gone").status_code == 204
        assert server.operator.delete("/gone").status_code == 404
        answer = server.operator.post("/named/command", content="connectivity.commands:openConnection")
        assert answer.status_code == 200, answer.text
        before = documents()
        assert sorted(before) == sorted([made.json()["id"], "named"])
        server.kill()
        server.start()
        assert documents() == before
        assert (before["named"]["name"], before["named"]["connectionStatus"]) == ("changed", "open")
        assert server.status("named")["liveStatus"] != "closed"
        assert server.operator.delete(f"/{made.json()['id']}").status_code == 204
        assert "hush-hush" not in server.log
    store = ConnectionStore.open(url, tmp_path / "data")
    (kept,) = store.all().values()
    store.close()
    assert b"hush-hush" in kept


def test_a_database_that_goes_away_stops_changes_and_no_connection(postgres: Postgres, tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path) as broker,
        TwinServer(tmp_path, **{STORE: postgres.other("away")}) as server,
    ):
        server.make_policy()
        server.make_thing("plant:lamp")
        server.connect("open", mqtt(broker.address, sources=[source("in")]))
        postgres.stop()
        for answer in (
            server.operator.put("/other", json=CLOSED),
            server.operator.delete("/open"),
            server.operator.post("/open/command", content="connectivity.commands:closeConnection"),
        ):
            assert answer.status_code == 503, answer.text
            assert "the database of connections does not answer" in answer.json()["message"]
        assert server.operator.get("/other").status_code == 404
        assert server.status("open")["liveStatus"] == "open"
        publish.single("in", modify("plant:lamp", "/attributes/n", 1), 1, hostname="127.0.0.1", port=broker.port)
        server.wait_for("plant:lamp/attributes/n", lambda n: n == 1)
        postgres.start()
        assert server.operator.put("/other", json=CLOSED).status_code == 201
        assert server.operator.delete("/open").status_code == 204
