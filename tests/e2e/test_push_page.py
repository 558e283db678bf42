"""The example of docs/push.md, typed as it stands but for ports and ids, into a whole server with the demo's sets."""

from __future__ import annotations

import logging
import re
import shlex
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from tests.support.administration import write_users
from tests.support.background import BackgroundServer
from tests.support.curl import Curl

PAGE = Path(__file__).parents[2] / "docs" / "push.md"


def test_the_example_does_what_the_page_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    page = PAGE.read_text("utf-8")
    (configuration,) = re.findall(r"(?ms)^```toml\n(.*?)^```", page)
    commands = re.findall(r"(?m)^(?:curl|penstock) .*$", page)
    in_the_browser, serve, create, register, activate, applications, devices, subscriptions, send_test = commands
    # This one is done in a browser, by test_notify_page.py.
    assert in_the_browser == "penstock demo"
    assert serve == "penstock demo --config penstock.toml --data-dir data"
    users, file = tmp_path / "users", tmp_path / "penstock.toml"
    write_users(users)
    file.write_text(configuration)
    settings = {"admin.users": str(users), "push.store": f"sqlite:///{tmp_path}/push.db", "log.level": "info"}

    with (
        caplog.at_level(logging.INFO),
        BackgroundServer(settings, file) as server,
        Curl(server.host, server.port) as curl,
    ):
        stream = curl.open(create)
        session = stream.until("CONS")[0].split(",")[1]
        assert curl.run(register, session) == ["REQOK,1"]
        _, device, adapter = stream.until("MPNREG")[-1].split(",")
        assert adapter == "MPN_INTERNAL_DATA_ADAPTER"
        assert curl.run(activate.replace("<device-ID>", device), session) == ["REQOK,2"]
        subscription = stream.until("MPNOK")[-1].split(",")[2]
        payload = '{"aps":{"alert":"Ations Europe is at '
        logged = f"Payload for subscription {subscription} with notification ID 1: {payload}"
        deadline = time.monotonic() + 40
        while logged not in caplog.text:
            assert time.monotonic() < deadline, caplog.text
            time.sleep(0.05)
        assert "Apple     com.mydomain.myapp" in typed(server, applications)
        assert f"{device}  Apple     com.mydomain.myapp  ACTIVE" in typed(server, devices)
        assert f"{subscription}  {device}  TRIGGERED" in typed(server, subscriptions.replace("<device-ID>", device))
        tested = typed(server, send_test.replace("<device-ID>", device))
        assert tested == f"penstock: device {device}: accepted\n"


def typed(server: BackgroundServer, command: str) -> str:
    """What a command of the page prints for an administrator."""
    program, *arguments = shlex.split(command)
    assert (program, arguments[0]) == ("penstock", "push")
    options = ["--api", f"http://127.0.0.1:{server.api_port}", "--user", "root"]
    done = CliRunner(env={"PENSTOCK_ADMIN_PASSWORD": "root-secret"}).invoke(app, ["push", *options, *arguments[1:]])
    assert done.exit_code == 0, done.output
    return done.output
