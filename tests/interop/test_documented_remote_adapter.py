"""docs/remote-adapters.md, followed: the configuration and the program of the page, with the published Python SDK."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.interop.libraries import REPOSITORY, require
from tests.support import forge
from tests.support.process import READY

PAGE = REPOSITORY / "docs" / "remote-adapters.md"
PATIENCE = 40.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.mark.interop
def test_the_program_of_the_page_publishes_to_the_server_of_the_page(tmp_path: Path) -> None:
    files = dict(re.findall(r"^```\w+ (\w+\.\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    ports = {printed: str(free_port()) for printed in ("6661", "6663")}
    for name, text in files.items():
        for printed, actual in ports.items():
            assert printed in text
            text = text.replace(printed, actual)
        (tmp_path / name).write_text(text)
    python = require(REPOSITORY / ".interop/adapter-python/bin/python")
    # First the program: it waits for the server.
    with (tmp_path / "feed.log").open("w") as log:
        feed = subprocess.Popen([python, "feed.py"], cwd=tmp_path, stdout=log, stderr=log)
    server = forge.Forked(["serve", "--config", "penstock.toml", "--port", "0", "--api-port", "0"], tmp_path)
    try:
        ready = READY.match(server.stdout.readline())
        assert ready is not None
        # As the page has it, at this server.
        (command,) = re.findall(r"^penstock (watch .*)$", PAGE.read_text("utf-8"), re.MULTILINE)
        options = ["--url", f"http://127.0.0.1:{ready[2]}", "--json", "--count", "2"]
        watched = forge.run([*command.split(), *options], tmp_path, timeout=PATIENCE)
        first, second = [json.loads(line) for line in watched.stdout.splitlines()]
        assert (first["item"], first["fields"]["price"]) == ("acme", "100")
        assert (second["item"], second["fields"]["price"]) == ("acme", "101")
    finally:
        feed.kill()
        feed.wait()
        server.kill()
        server.communicate()
