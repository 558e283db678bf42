"""What the server and the commands keep on the disk is for their owner only, whatever the umask says."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

from tests.support.command import PENSTOCK, PORTS
from tests.support.privacy import open_to_others
from tests.support.process import READY

PATIENCE = 30.0
TOKEN = "0123456789abcdef"
CONFIGURATION = f"""
[demo]
enabled = true
[tlex]
enabled = true
port = 0
[adapters.IN.data.DEFAULT]
adapter = "ingest"
parameters = {{ items = ["*"], tokens = ["{TOKEN}"] }}
journal.items = ["*"]
"""


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """With a umask that takes nothing away."""
    with (directory / "stderr.txt").open("a") as errors:
        return subprocess.Popen(
            [str(PENSTOCK), *arguments], cwd=directory, stdout=subprocess.PIPE, stderr=errors, text=True, umask=0
        )


def put(address: str, method: str, body: bytes, authorization: str) -> int:
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    request = Request(address, body, headers, method=method)
    with urlopen(request, timeout=PATIENCE) as answer:
        return int(answer.status)


def test_everything_that_the_server_keeps_is_for_its_owner(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(CONFIGURATION)
    server = start(tmp_path, "serve", "--config", "penstock.toml", "--data-dir", "kept/data", *PORTS)
    try:
        assert server.stdout is not None
        ready = READY.match(server.stdout.readline())
        assert ready is not None, (tmp_path / "stderr.txt").read_text()
        api = f"http://127.0.0.1:{ready[4]}"
        basic = "Basic " + base64.b64encode(b"ditto:ditto").decode()
        assert put(f"{api}/api/2/things/my.things:lamp", "PUT", b"{}", basic) == 201
        line = json.dumps({"item": "a", "fields": {"x": "1"}}).encode()
        assert put(f"{api}/api/ingest/IN/DEFAULT", "POST", line, f"Bearer {TOKEN}") == 200
        running = open_to_others(tmp_path / "kept")
        names = {path.name for path in (tmp_path / "kept" / "data").rglob("*")}
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE)
    finally:
        server.kill()
        server.communicate()
    assert running == []
    assert {"lock", "journal", "items", "store.db", "store.db-wal", "store.db-shm", "token"} <= names
    assert open_to_others(tmp_path / "kept") == []
    assert (tmp_path / "kept" / "data" / "journal" / "twins.state").exists()


def test_a_command_that_makes_the_database_makes_it_for_its_owner(tmp_path: Path) -> None:
    command = start(tmp_path, "tlex", "account", "add", "ann", "--data-dir", "data")
    command.communicate(timeout=PATIENCE)
    assert command.returncode == 0
    assert (tmp_path / "data" / "store.db").exists()
    assert open_to_others(tmp_path / "data") == []


def test_a_data_directory_that_others_may_look_into_stays_so_and_is_told_of(tmp_path: Path) -> None:
    """Somebody may have meant it; what is new in it is for the owner all the same."""
    data = tmp_path / "data"
    data.mkdir()
    os.chmod(data, 0o755)
    server = start(tmp_path, "serve", "--data-dir", "data", *PORTS)
    try:
        assert server.stdout is not None
        assert READY.match(server.stdout.readline())
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE)
    assert "other users can read the data directory" in (tmp_path / "stderr.txt").read_text()
    assert open_to_others(data) == ["drwxr-xr-x data"]
