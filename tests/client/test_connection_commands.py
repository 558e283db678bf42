"""`penstock connection …` as a person types it, against a server with twins and a real MQTT broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.terminal import FAILED, WRONG
from tests.services.connections.world import TwinServer, mqtt, source
from tests.support.mosquitto import Mosquitto


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinServer]:
    with TwinServer(tmp_path_factory.mktemp("server")) as made:
        yield made


def connection(server: TwinServer, *arguments: str, user: str = "root") -> Result:
    options = ["--api", f"http://127.0.0.1:{server.api_port}", "--user", user]
    return CliRunner(env={"PENSTOCK_ADMIN_PASSWORD": f"{user}-secret"}).invoke(
        app, ["connection", *options, *arguments]
    )


def done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_connection_is_tried_made_shown_closed_and_deleted(server: TwinServer, tmp_path: Path) -> None:
    file = tmp_path / "document.json"
    with Mosquitto(tmp_path) as broker:
        password = {"type": "plain", "username": "ann", "password": "hush-hush"}
        file.write_text(json.dumps(mqtt(broker.address, sources=[source("in/#")], credentials=password)))
        done(connection(server, "test", str(file)))
        assert done(connection(server, "list")).splitlines()[1:] == []
        done(connection(server, "put", "plant", str(file)))
        server.wait_open("plant")
        (row,) = done(connection(server, "list")).splitlines()[1:]
        assert row.split()[:3] == ["plant", "mqtt-5", "open"]
        shown = done(connection(server, "show", "plant", user="eve"))
        assert json.loads(shown)["credentials"] == {**password, "password": "*****"}
        assert json.loads(done(connection(server, "status", "plant")))["liveStatus"] == "open"
        assert json.loads(done(connection(server, "metrics", "plant")))["connectionId"] == "plant"
        assert "connected" in done(connection(server, "logs", "plant"))
        # What was shown can be sent back: the secret stays.
        file.write_text(shown)
        done(connection(server, "put", "plant", str(file)))
        server.wait_open("plant")
        done(connection(server, "close", "plant"))
        assert server.status("plant")["liveStatus"] == "closed"
        done(connection(server, "open", "plant"))
        server.wait_open("plant")
    done(connection(server, "delete", "plant"))
    assert done(connection(server, "list")).splitlines()[1:] == []


def test_mistakes_are_named(server: TwinServer, tmp_path: Path) -> None:
    file = tmp_path / "document.json"
    answer = connection(server, "put", "plant", str(file))
    assert (answer.exit_code, "No such file" in answer.output) == (WRONG, True)
    file.write_text("{")
    answer = connection(server, "put", "plant", str(file))
    assert (answer.exit_code, "is not JSON" in answer.output) == (WRONG, True)
    file.write_text(json.dumps(mqtt("localhost:1", connectionType="amqp", sources=[source("x")])))
    answer = connection(server, "put", "plant", str(file))
    assert "connectionType = 'amqp': expected one of mqtt, mqtt-5, kafka" in answer.output
    file.write_text(json.dumps(mqtt("127.0.0.1:1", sources=[source("x")])))
    answer = connection(server, "test", str(file))
    assert "failed to connect" in answer.output
    answer = connection(server, "put", "plant", str(file), user="eve")
    assert (answer.exit_code, "may only look" in answer.output) == (FAILED, True)
    answer = connection(server, "status", "nobody")
    assert (answer.exit_code, "nobody" in answer.output) == (FAILED, True)
