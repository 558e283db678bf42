"""`config check` refuses what `serve` would refuse, in the same words, and leaves no trace of having looked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import forge
from tests.support.tls import CERTIFICATES

PORTS = ("--port", "0", "--api-port", "0")
REPLAY = '[adapters.Q.data.DEFAULT]\nadapter = "replay"\nparameters = { file = "rows.csv", item = "name", rate = 1 }\n'
INGEST = '[adapters.Q.data.DEFAULT]\nadapter = "ingest"\nparameters = { items = ["a"], token_file = "tokens" }\n'
USERS = '[adapters.Q.metadata]\nadapter = "access"\nparameters = { users = "users.toml" }\n'
TOKENS = (
    '[adapters.Q.metadata]\nadapter = "access"\n'
    'parameters = { tokens = { secret_file = "secret", algorithms = ["HS256"], issuer = "me", audience = "us" } }\n'
)
REMOTE = (
    '[adapters.Q.data.DEFAULT]\nadapter = "remote"\n'
    f'parameters = {{ port = 0, tls_certificate = "{CERTIFICATES / "certificate.pem"}",'
    f' tls_private_key = "{CERTIFICATES / "other_key.pem"}" }}\n'
)
OWN = '[adapters.Q.data.DEFAULT]\nadapter = "feed:Feed"\n'
FEED = """
from pathlib import Path
from penstock.adapters import DataAdapter

class Feed(DataAdapter):
    def __init__(self) -> None:
        raise RuntimeError("the feed is not configured")

class Late(DataAdapter):
    def start(self) -> None:
        Path("started").write_text("")
"""


def nothing(directory: Path) -> None:
    pass


def wrong_column(directory: Path) -> None:
    (directory / "rows.csv").write_text("symbol,price\nA,1\n")


def short_token(directory: Path) -> None:
    (directory / "tokens").write_text("short\n")


def broken_users(directory: Path) -> None:
    (directory / "users.toml").write_text("[users\n")


def short_secret(directory: Path) -> None:
    (directory / "secret").write_text("short\n")


def file_as_data(directory: Path) -> None:
    (directory / "data").write_text("")


def file_in_the_way(directory: Path) -> None:
    (directory / "store.db").write_text("this is not a database, and longer than the header of one would be\n" * 4)


CASES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "no replay file": (REPLAY, nothing, "No such file or directory"),
    "a replay file without the column": (REPLAY, wrong_column, "name"),
    "a parameter that the constructor refuses": (REPLAY.replace("rate = 1", "rate = -1"), wrong_column, "rate = -1"),
    "no token file": (INGEST, nothing, "token_file"),
    "a token that is too short": (INGEST, short_token, "16"),
    "no file of users": (USERS, nothing, "users.toml"),
    "a file of users that is no TOML": (USERS, broken_users, "users.toml"),
    "a secret that is too short": (TOKENS, short_secret, "32"),
    "a remote adapter's certificate without its key": (REMOTE, nothing, "tls_certificate"),
    "an own adapter that cannot be made": (OWN, nothing, "the feed is not configured"),
    "the hub's adapter without the hub": ('[adapters.Q.data.DEFAULT]\nadapter = "tlex"\n', nothing, "tlex.enabled"),
    "users of Ditto that nobody knows": (
        '[ditto]\nadapter_set = "Q"\n[adapters.Q.metadata]\nadapter = "literal"\n',
        nothing,
        "ditto.adapter_set = Q",
    ),
    "a data directory that is a file": ("", file_as_data, "the data directory data cannot be used"),
    "a data directory below a file": ("data/below", file_as_data, "the data directory data/below cannot be used"),
    "a database in a folder that is not there": (
        '[tlex]\nenabled = true\nport = 0\nstore = "sqlite:///none/store.db"\n',
        nothing,
        "unable to open database file",
    ),
    "a database that is none": (
        '[tlex]\nenabled = true\nport = 0\nstore = "sqlite:///store.db"\n',
        file_in_the_way,
        "file is not a database",
    ),
}


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("case", CASES)
def test_what_serve_refuses_is_refused_in_the_same_words(case: str, tmp_path: Path) -> None:
    content, prepare, expected = CASES[case]
    data_dir = "data"
    if content.startswith("data/"):
        content, data_dir = "", content
    (tmp_path / "penstock.toml").write_text(f'log.format = "json"\n{content}')
    (tmp_path / "feed.py").write_text(FEED)
    prepare(tmp_path)
    before = files(tmp_path)
    options = ("--config", "penstock.toml", "--data-dir", data_dir, *PORTS)

    checked = forge.run(["config", "check", *options], tmp_path)
    assert (checked.returncode, checked.stdout) == (2, "")
    assert files(tmp_path) == before
    assert not (tmp_path / "data").is_dir()

    served = forge.run(["serve", *options], tmp_path)
    assert (served.returncode, served.stdout) == (1, "")
    (refusal,) = [event for event in map(json.loads, served.stderr.splitlines()) if event["level"] == "error"]
    assert refusal["event"] == "cannot start"
    assert checked.stderr == f"penstock: {refusal['reason']}\n"
    assert expected in refusal["reason"]

    found = json.loads(forge.run(["config", "check", "--json", *options], tmp_path).stdout)
    assert (found["ok"], found["error"]) == (False, refusal["reason"])


HUB = '[cluster]\nrole = "hub"\nnats = ["nats://127.0.0.1:4222"]\n'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (HUB + 'credentials_file = "tokens"', 'cluster.credentials_file = "tokens": expected a NATS credentials file'),
        (HUB + 'store = "postgresql+psycopg://me:s3cret@:x/d"', "cluster.store: expected the URL of a PostgreSQL"),
        (HUB + 'store = "postgresql"', "cluster.store: expected the URL of a PostgreSQL database"),
        ('[tlex]\nenabled = true\nstore = "nosuch://host/name"', "tlex.store: expected a database URL"),
    ],
)
def test_what_cannot_be_used_whatever_is_running_is_a_mistake_of_the_file(
    content: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "penstock.toml").write_text(content)
    short_token(tmp_path)
    options = ("--config", "penstock.toml", "--data-dir", "data", *PORTS)
    checked, served = (forge.run([*command, *options], tmp_path) for command in (["config", "check"], ["serve"]))
    assert (checked.returncode, served.returncode) == (2, 2)
    assert checked.stderr == served.stderr
    assert checked.stderr.startswith(f"penstock: penstock.toml: {expected}")
    assert checked.stderr.count("\n") == 1
    assert "s3cret" not in checked.stderr


def test_a_database_of_a_newer_version_is_refused_and_not_written(tmp_path: Path) -> None:
    import sqlite3

    (tmp_path / "penstock.toml").write_text("[tlex]\nenabled = true\nport = 0\n")
    options = ("--config", "penstock.toml", "--data-dir", "data", *PORTS)
    assert forge.run(["tlex", "account", "add", "ann", "--data-dir", "data"], tmp_path).returncode == 0
    assert forge.run(["config", "check", *options], tmp_path).returncode == 0
    with sqlite3.connect(tmp_path / "data" / "store.db") as database:
        database.execute("UPDATE penstock_store SET version = 1000")
    database.close()
    before = files(tmp_path)
    checked = forge.run(["config", "check", *options], tmp_path)
    assert checked.returncode == 2
    assert "The database has layout 1000" in checked.stderr
    assert files(tmp_path) == before


def test_an_optional_adapter_that_would_not_start_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(f"{REPLAY}optional = true\n")
    checked = forge.run(["config", "check", "--config", "penstock.toml"], tmp_path)
    assert (checked.returncode, checked.stdout) == (0, "penstock: penstock.toml: ok\n")
    assert checked.stderr.startswith(
        "penstock: warning: optional adapter would be retried: data adapter DEFAULT of set Q failed: file ="
    )


def test_a_hub_without_a_standby_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[cluster]\nrole = "hub"\nnats = ["nats://127.0.0.1:4222"]\n')
    checked = forge.run(["config", "check", "--config", "penstock.toml"], tmp_path)
    assert (checked.returncode, checked.stdout) == (0, "penstock: penstock.toml: ok\n")
    expected = "this hub has no standby, because cluster.store names no PostgreSQL database"
    assert checked.stderr == f"penstock: warning: {expected}\n"


def test_nothing_is_started_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "feed.py").write_text(FEED)
    (tmp_path / "penstock.toml").write_text(
        '[demo]\nenabled = true\n[tlex]\nenabled = true\n[adapters.Q.data.DEFAULT]\nadapter = "feed:Late"\n'
    )
    before = files(tmp_path)
    checked = forge.run(["config", "check", "--config", "penstock.toml"], tmp_path)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "penstock: penstock.toml: ok\n", "")
    assert files(tmp_path) == before


def test_the_server_that_runs_is_not_in_the_way(tmp_path: Path) -> None:
    """A configuration is checked before SIGHUP: the data directory and the ports are in use then."""
    (tmp_path / "penstock.toml").write_text("[tlex]\nenabled = true\nport = 0\n")
    options = ("--config", "penstock.toml", "--data-dir", "data", *PORTS)
    process = forge.Forked(["serve", *options], tmp_path)
    try:
        assert process.stdout.readline().startswith("penstock: ready")
        checked = forge.run(["config", "check", *options], tmp_path)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "penstock: penstock.toml: ok\n", "")
    finally:
        process.kill()
        process.communicate()
