"""Typed tables of a server's journal, read over the network without Spark: who may have them, and the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import history
from penstock.config import load
from penstock.history.catalog import Catalog, TableError
from penstock.history.lake_url import LakeUrl
from penstock.journal.reader import JournalReader
from penstock.pipeline.errors import BadOption
from penstock.pipeline.files import Written, write_task
from penstock.pipeline.lake import Lake
from penstock.pipeline.options import parse
from penstock.pipeline.place import Place
from penstock.pipeline.queries import catalog_of
from penstock.pipeline.remote import RemoteJournal, RemoteJournalAddress, TokenRefused
from tests.pipeline.world import NOON, SECOND
from tests.support.command import run
from tests.support.journal_server import TOKEN, JournalServer
from tests.support.lake_store import LIMITS, lake_in, options
from tests.support.object_store import ObjectStore

pytestmark = pytest.mark.timeout(300)

PARTLY = "a-token-for-one-machine-only"
OTHER = "a-token-for-another-adapter"

READERS = f"""
[journal.readers.all]
token = "{TOKEN}"
entities = ["*"]

[journal.readers.partly]
token = "{PARTLY}"
entities = ["PLANT/READINGS/r.1", "PLANT/ALARMS/*"]

[journal.readers.other]
token = "{OTHER}"
entities = ["OTHER/*"]
"""

# As far as the machine of the pipeline knows the server's adapters.
DEMO = "[demo]\nenabled = false\n"
ADAPTERS = DEMO + "".join(
    f"""
[adapters.PLANT.data.{name}]
adapter = "ingest"
parameters = {{ items = {{ "*" = "MERGE" }}, tokens = ["a-token-of-more-than-16-characters"] }}
[adapters.PLANT.data.{name}.journal]
items = ["*"]
"""
    for name in ("ALARMS", "READINGS")
)
DECLARED = '[pipeline.tables.hot]\nadapter = "PLANT/READINGS"\nitem = "r.{machine}"\nfields = { n = "bigint" }\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JournalServer]:
    with JournalServer(tmp_path_factory.mktemp("server"), READERS) as running:
        running.append(
            [
                (f"PLANT/{adapter}/r.{n % 3}", "update", json.dumps({"n": n}), NOON + n * SECOND)
                for n in range(30)
                for adapter in ("READINGS", "ALARMS")
            ]
        )
        yield running


def pipeline_toml(server: JournalServer, lake: LakeUrl, store: ObjectStore, token: str) -> str:
    given = ", ".join(f'{name} = "{value}"' for name, value in {**options(store), **LIMITS}.items())
    return (
        f'{ADAPTERS}{DECLARED}[pipeline]\napi = "{server.api}"\njournal = "server"\nreader_token = "{token}"\n'
        f'[lake]\nurl = "{lake}"\noptions = {{ {given} }}\n'
    )


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


def catalog(server: JournalServer, own: Path, token: str, text: str = ADAPTERS) -> Catalog:
    own.mkdir(exist_ok=True)
    (own / "pipeline.toml").write_text(text)
    place = Place(own, server.api, remote=True, reader_token=token)
    return catalog_of(load(own / "pipeline.toml", {"server.data_dir": str(own)}).config, own, place)


def refusal(server: JournalServer, reader: str, table: str, pattern: str, entities: str) -> str:
    return (
        f'the table {table} needs the token of a reader with entities = ["{pattern}"], because it is read from the '
        f"lake as well; the server {server.api} refused the token: the reader {reader} has no right to read all of "
        f"{pattern}; its entities are {entities}"
    )


# -- who may --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "reader", "entities"),
    [(PARTLY, "partly", "PLANT/READINGS/r.1, PLANT/ALARMS/*"), (OTHER, "other", "OTHER/*")],
    ids=["partly", "other"],
)
@pytest.mark.parametrize(
    ("table", "pattern"), [("plant.readings", "PLANT/READINGS/*"), ("plant.hot", "PLANT/READINGS/r.*")]
)
def test_a_table_that_the_token_is_not_for_is_refused_before_anything_of_it_is_read(
    server: JournalServer, tmp_path: Path, token: str, reader: str, entities: str, table: str, pattern: str
) -> None:
    tables = catalog(server, tmp_path, token, ADAPTERS + DECLARED)
    # A side table is made of the same entities.
    for name in (table, f"{table}_misfits"):
        with pytest.raises(TokenRefused) as refused:
            tables.table(name)
        assert str(refused.value) == refusal(server, reader, table, pattern, entities)
    if token == PARTLY:
        assert [column.name for column in tables.table("plant.alarms").columns] == ["n"]


def test_the_option_table_is_refused_in_the_same_words(server: JournalServer, store: ObjectStore) -> None:
    lake = lake_in(store)
    given = {
        "server": server.api,
        "token": PARTLY,
        "lake": str(lake),
        "lakeSecrets": json.dumps({**options(store), **LIMITS}),
    }
    with pytest.raises(TokenRefused) as refused:
        parse({**given, "table": "plant.readings"}, stream=False)
    entities = "PLANT/READINGS/r.1, PLANT/ALARMS/*"
    assert str(refused.value) == refusal(server, "partly", "plant.readings", "PLANT/READINGS/*", entities)
    assert parse({**given, "table": "plant.alarms"}, stream=False).table is not None


def test_a_table_that_a_narrow_token_cannot_know_is_told_with_the_reason(server: JournalServer, tmp_path: Path) -> None:
    with pytest.raises(TableError) as unknown:
        catalog(server, tmp_path, OTHER, DEMO).table("plant.readings")
    assert str(unknown.value) == (
        "there is no table plant.readings; there are: none; the token is for some entities only, and there may be "
        "others"
    )
    with pytest.raises(TableError, match=r"^there is no table plant.reading \(did you mean plant.readings\?\); there"):
        catalog(server, tmp_path, TOKEN, DEMO).table("plant.reading")


def test_the_command_sql_refuses_it_and_lists_what_the_token_is_for(
    server: JournalServer, store: ObjectStore, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.toml").write_text(pipeline_toml(server, lake_in(store), store, PARTLY))
    config = ("--config", "pipeline.toml", "--data-dir", "own")
    (tmp_path / "own").mkdir()
    told = refusal(server, "partly", "plant.readings", "PLANT/READINGS/*", "PLANT/READINGS/r.1, PLANT/ALARMS/*")
    for more in ((), ("--live",)):
        # Whether the column is known is not asked: Spark is not started.
        done = run(tmp_path, "sql", "SELECT nothing FROM plant.readings", *more, *config)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"penstock: {told}\n")
    listed = run(tmp_path, "sql", "--tables", *config)
    assert (listed.returncode, listed.stderr) == (0, "")
    lines = listed.stdout.splitlines()
    assert lines[0] == "plant.alarms  PLANT/ALARMS/* (types inferred)"
    assert lines[-1] == f"plant.readings  {told}"
    assert [line.split()[0] for line in lines if line.startswith("plant.")] == [
        "plant.alarms",
        "plant.hot",
        "plant.readings",
    ]
    parsed = [json.loads(line) for line in run(tmp_path, "sql", "--tables", "--json", *config).stdout.splitlines()]
    assert parsed[-1] == {"table": "plant.readings", "refused": told}


# -- without Spark --------------------------------------------------------------------------------------------------


def test_arrow_has_the_rows_of_the_server_s_journal_and_of_the_lake(
    server: JournalServer, store: ObjectStore, tmp_path: Path
) -> None:
    lake = lake_in(store)
    config = tmp_path / "pipeline.toml"
    config.write_text(pipeline_toml(server, lake, store, TOKEN))
    journal = RemoteJournal(RemoteJournalAddress(server.api, TOKEN))
    # Before there is a lake; and with half of the events in it.
    for moved in (0, 30):
        if moved:
            written = [
                Written(**row)
                for batch in write_task(lake, 0)(JournalReader(server.journal_path).read(1, moved + 1))
                for row in batch.to_pylist()
            ]
            assert Lake(lake).adopt(server.journal_path, 0, written) == moved
        for name in ("plant.hot", "plant.readings"):
            found = history.table(name, config=config, journal=journal)
            assert found.column("n").to_pylist() == list(range(30)), name
        half = history.table("plant.hot", config=config, journal=journal, since="2023-11-14T22:13:35Z")
        assert half.column("n").to_pylist() == list(range(15, 30))
    narrow = RemoteJournal(RemoteJournalAddress(server.api, PARTLY))
    with pytest.raises(TokenRefused, match=r"^the table plant.hot needs the token of a reader"):
        history.table("plant.hot", config=config, journal=narrow)
    with pytest.raises(TableError, match=r"^journal is that of a server, so lake.url of the configuration is needed"):
        history.table("plant.hot", tmp_path, journal=journal)


# -- what can be said of Spark's catalog without Spark ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"token": TOKEN}, "register_tables: a token is given without server, the address of the server whose journal"),
        ({"token_file": "t"}, "register_tables: a token is given without server"),
        (
            {"server": "http://h:1", "data_dir": "d"},
            "register_tables: data_dir and server are both given; expected one of them",
        ),
        ({"server": "h:1", "token": TOKEN}, "server is 'h:1'; expected an address such as http://127.0.0.1:8081"),
        (
            {"server": "http://h:1", "token": TOKEN},
            "register_tables needs lake.url of the configuration, because the journal is read from a server",
        ),
        ({"server": "http://h:1", "token": TOKEN, "token_file": "t"}, "token and tokenFile are both given"),
        ({"server": "http://h:1", "token_file": "none"}, r"tokenFile is '.*none', which cannot be read: No such file"),
    ],
)
def test_wrong_arguments_are_told_before_spark_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], problem: str
) -> None:
    from penstock.pipeline import register_tables

    monkeypatch.chdir(tmp_path)
    nobody: Any = None
    with pytest.raises(BadOption, match=f"^{problem}") as wrong:
        register_tables(nobody, **given)
    assert TOKEN not in str(wrong.value)
    assert list(tmp_path.iterdir()) == []
