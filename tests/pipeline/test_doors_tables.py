"""Twins and TLEX payloads as tables: written by the doors of a real server, read by Arrow and by SQL, once and live."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import history
from penstock.config import load
from penstock.pipeline.lake import Lake
from penstock.pipeline.place import Place
from tests.adapters.access.world import password_of, write_users
from tests.doors.tlex.site import NOON, named
from tests.e2e.test_tlex_nodes import CALM, IDENTIFIERS, Clients
from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAMP, PUMP = "plant:lamp", "plant:pump"
FIRST, SECOND = IDENTIFIERS[:2]

# More milliseconds than any calendar has.
NEVER = 2**64 - 1

TEMPERATURES = "SELECT item AS thing, number AS celsius FROM ditto.features WHERE path LIKE '%/celsius'"
TALKERS = "SELECT identifier, count(*) AS payloads, sum(length(payload)) AS bytes FROM tlex.payloads GROUP BY ALL"


class Site:
    """A server with both doors, a controller, and two queries over what they journal."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.clients = Clients(directory)
        write_users(directory / "users", {"alice": []})
        settings: dict[str, object] = {
            **CALM,
            "tlex.port": 0,
            "tlex.store": self.clients.url,
            "tlex.journal": True,
            "tlex.journal_policy": "ack",
            "ditto.adapter_set": "SET",
            "adapters.SET.metadata.adapter": "access",
            "adapters.SET.metadata.parameters.users": str(directory / "users"),
            "pipeline.tables.power.adapter": "DITTO/THINGS",
            "pipeline.tables.power.item": "plant:{machine}",
            "pipeline.tables.power.fields.watts.from": "/attributes/power/watts",
            "pipeline.tables.power.fields.watts.type": "double",
            "pipeline.queries.temperatures.sql": TEMPERATURES,
            "pipeline.queries.temperatures.item": "d.{thing}",
            "pipeline.queries.temperatures.mode": "DISTINCT",
            "pipeline.queries.talkers.sql": TALKERS,
            "pipeline.queries.talkers.item": "m.{identifier}",
            "pipeline.queries.talkers.watermark": "never",
        }
        self.server = RealServer(directory, settings)
        self.data = directory / "data"
        self.config = directory / "penstock.toml"

    def __enter__(self) -> Site:
        self.server.__enter__()
        self.clients.api = self.server.api_port
        self.things = httpx.Client(
            base_url=f"{self.server.api}/api/2", auth=("alice", password_of("alice")), timeout=30
        )
        self.controller = self.clients.join("TLC", FIRST, SECOND)
        return self

    def __exit__(self, *_: Any) -> None:
        self.clients.hang_up()
        self.things.close()
        self.server.__exit__(None, None, None)

    def put(self, path: str, value: object) -> None:
        answer = self.things.put(path, json=value)
        assert answer.status_code in (201, 204), answer.text

    def send(self, identifier: str, text: str, sent: int = NOON) -> None:
        self.controller.send(named(identifier, text, origin=sent))
        self.controller.synchronize()

    def rows(self, table: str) -> list[dict[str, Any]]:
        """As Arrow has them, without Spark."""
        found: list[dict[str, Any]] = history.table(table, self.data, config=self.config).to_pylist()
        return found

    def place(self) -> Place:
        return Place(self.data, self.server.api, TOKEN)


@pytest.fixture
def site(tmp_path: Path) -> Any:
    with Site(tmp_path / "site") as running:
        lamp = {"attributes": {"power": {"watts": 60}}, "features": {"lamp": {"properties": {"celsius": 40.5}}}}
        running.put(f"/things/{LAMP}", lamp)
        running.put(f"/things/{PUMP}", {"features": {"motor": {"properties": {"celsius": 70}}}})
        running.put(f"/things/{LAMP}/features/lamp/properties/celsius", 41)
        running.put(f"/things/{LAMP}/attributes/power/watts", "many")
        running.send(FIRST, "green")
        running.send(SECOND, "red", NEVER)
        yield running


def test_what_the_doors_have_journaled_is_in_their_tables(site: Site) -> None:
    features = [(row["item"], row["revision"], row["feature"], row["path"]) for row in site.rows("ditto.features")]
    assert features == [
        (LAMP, 1, "lamp", "/features/lamp/properties/celsius"),
        (PUMP, 1, "motor", "/features/motor/properties/celsius"),
        (LAMP, 2, "lamp", "/features/lamp/properties/celsius"),
    ]
    assert [row["number"] for row in site.rows("ditto.features")] == [40.5, 70.0, 41.0]
    watts = [(row["machine"], row["watts"], row["misfits"]) for row in site.rows("ditto.power")]
    assert watts == [("lamp", 60.0, 0), ("pump", None, 0), ("lamp", None, 0), ("lamp", None, 1)]
    (many,) = site.rows("ditto.power_misfits")
    assert (many["item"], many["column_name"], many["value"]) == (LAMP, "watts", "many")
    payloads = site.rows("tlex.payloads")
    assert [(row["identifier"], row["payload"], row["misfits"]) for row in payloads] == [
        (FIRST, b"green", 0),
        (SECOND, b"red", 1),
    ]
    assert [row["sent"] and int(row["sent"].timestamp() * 1000) for row in payloads] == [NOON, None]
    assert {row["publisher"] for row in payloads} == {"TLC"}


def test_queries_over_both_are_answered_once_and_published_as_they_change(spark: SparkSession, site: Site) -> None:
    from penstock.pipeline.jobs import history as job
    from penstock.pipeline.queries import catalog_of, live_query, start
    from penstock.pipeline.streaming_sql import SqlQuery, past

    config = load(site.config, {"server.data_dir": str(site.data)}).config

    def once(sql: str) -> list[tuple[Any, ...]]:
        query = SqlQuery(sql, catalog_of(config, site.data), "sql")
        return sorted(tuple(row) for row in query.dataframe(spark, past(spark, site.place())).collect())

    def published() -> list[tuple[str, str]]:
        for name in ("temperatures", "talkers"):
            start(spark, site.place(), live_query(config, name), once=True).awaitTermination()
        return [
            (item, fields.get("celsius") or fields["payloads"])
            for item, fields in site.server.published()
            if item.startswith(("d.", "m."))
        ]

    assert once(TEMPERATURES) == [(LAMP, 40.5), (LAMP, 41.0), (PUMP, 70.0)]
    assert once(TALKERS) == [(FIRST, 1, 5), (SECOND, 1, 3)]
    first = published()
    assert sorted(first) == [
        (f"d.{LAMP}", "40.5"),
        (f"d.{LAMP}", "41.0"),
        (f"d.{PUMP}", "70.0"),
        (f"m.{FIRST}", "1"),
        (f"m.{SECOND}", "1"),
    ]
    # Half is in the lake then, and what comes is in the journal.
    job.start(spark, site.place(), job.Settings(), once=True).awaitTermination()
    assert Lake(site.data / "lake").sequence() > 0
    site.put(f"/things/{PUMP}/features/motor/properties/celsius", 71.5)
    site.send(FIRST, "amber")
    assert once(TEMPERATURES) == [(LAMP, 40.5), (LAMP, 41.0), (PUMP, 70.0), (PUMP, 71.5)]
    assert once(TALKERS) == [(FIRST, 2, 10), (SECOND, 1, 3)]
    assert published()[len(first) :] == [(f"d.{PUMP}", "71.5"), (f"m.{FIRST}", "2")]
