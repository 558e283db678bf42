"""The protocol of batches over HTTP, with a whole server and real clients."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.adapters.api import Journaling
from penstock.adapters.ingest import IngestAdapter
from penstock.server import Server
from tests.adapters.ingest.test_ingest import told, watch
from tests.adapters.ingest.world import Record, records, stream, table
from tests.adapters.stage import SetServer

TOKEN = "0123456789abcdef"
ARROW = "application/vnd.apache.arrow.stream"
MODES = {"sensor-*": "MERGE", "total": "MERGE", "log": "DISTINCT", "orders": "COMMAND"}
BATCHES = "/queries/q/batches"


class JournaledServer(SetServer):
    """With a data directory. `ADAPTER` is journaled, of `PART` one item is, `OPEN` is not; `SMALL` is tight."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.ingest = IngestAdapter(items=MODES, tokens=[TOKEN], max_items=4, max_fields=4, max_rows=3)
        self.small = IngestAdapter(items=["x"], tokens=[TOKEN], max_body_bytes=8_000, max_staged_bytes=6_000)
        data: dict[str, DataAdapter] = {
            "ADAPTER": self.ingest,
            "PART": IngestAdapter(items=["sensor-*", "total"], tokens=[TOKEN]),
            "OPEN": IngestAdapter(items=["total"], tokens=[TOKEN]),
            "SMALL": self.small,
            "LARGE": IngestAdapter(items=["x"], tokens=[TOKEN]),
            "PLAIN": DataAdapter(),
        }
        journal = {
            "ADAPTER": Journaling(("*",), "ack"),
            "PART": Journaling(("tot*",), "interval"),
            "SMALL": Journaling(("*",)),
            "LARGE": Journaling(("*",)),
            "PLAIN": Journaling(("*",)),
        }
        sets = [AdapterSet("SET", MetadataAdapter(), data, journal=journal)]
        super().__init__(sets, {"journal.segment_bytes": 65_536, "log.level": "error"})

    def __enter__(self) -> JournaledServer:
        super().__enter__()
        return self

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = Server(self.config, self._sets, data_dir=self.data_dir)
        await self.server.start()
        self._started.set()
        await self._stop.wait()
        await self.server.stop()

    @property
    def journal(self) -> list[Record]:
        return records(self.data_dir / "journal")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[JournaledServer]:
    with JournaledServer(tmp_path) as running:
        yield running


def ask(
    server: SetServer,
    method: str,
    path: str,
    body: bytes | str = b"",
    *,
    adapter: str = "ADAPTER",
    token: str | None = TOKEN,
    kind: str = ARROW,
    **headers: str,
) -> tuple[int, Any, Mapping[str, str]]:
    given = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    connection = http.client.HTTPConnection(server.host, server.api_port, timeout=30)
    try:
        connection.request(method, f"/api/ingest/SET/{adapter}{path}", body, given)
        response = connection.getresponse()
        return response.status, json.loads(response.read()), dict(response.headers.items())
    finally:
        connection.close()


def put(
    server: SetServer, batch: int, mode: str, rows: Sequence[Mapping[str, object]], adapter: str = "ADAPTER"
) -> tuple[int, Any]:
    return ask(server, "PUT", f"{BATCHES}/{batch}?mode={mode}", stream(table(rows)), adapter=adapter)[:2]


def row(item: str | None, **fields: object) -> dict[str, object]:
    return {"item": item, **fields}


DONE = {"ignored": 0, "repeated": False}
STAGED = {"rows": 2, "repeated": False}
REPEATED = {"rows": 0, "ignored": 0, "repeated": True}


# -- what is told -----------------------------------------------------------------------------------------------------


def test_an_adapter_tells_its_items_and_whether_it_is_durable(server: JournaledServer) -> None:
    assert ask(server, "GET", "")[:2] == (200, {"items": MODES, "durable": True})
    assert ask(server, "GET", "", adapter="OPEN")[:2] == (200, {"items": {"total": "MERGE"}, "durable": False})


def test_the_last_batch_of_a_query_is_known(server: JournaledServer) -> None:
    assert ask(server, "GET", "/queries/q")[:2] == (200, {"batch": None})
    put(server, 7, "MERGE", [row("total", x="1")])
    assert ask(server, "GET", "/queries/q")[:2] == (200, {"batch": 7})
    assert ask(server, "GET", "/queries/other")[:2] == (200, {"batch": None})


# -- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_reaches_whoever_is_subscribed_and_whoever_comes_later(server: JournaledServer) -> None:
    rows = [row("total", x="1", y=None), row("sensor-1", x="2", y="z"), row("total", x="3", y="w")]
    with watch(server, "sensor-1 total", "x y") as client:
        assert put(server, 0, "MERGE", rows) == (200, {"rows": 3, **DONE})
        assert told(client, 3) == ["U,1,2,1|#", "U,1,1,2|z", "U,1,2,3|w"]
    with watch(server, "total", "x y") as late:
        assert told(late, 1) == ["U,1,1,3|w"]


def test_rows_and_the_number_of_the_batch_are_in_the_journal(server: JournaledServer) -> None:
    put(server, 3, "MERGE", [row("total", x="1"), row("total", x=None)])
    assert server.journal == [
        ("SET/ADAPTER/total", "update", '{"x":"1"}'),
        ("SET/ADAPTER/total", "update", '{"x":null}'),
        ("SET/ADAPTER#q", "batch", '{"batch":3,"rows":2}'),
    ]


def test_a_batch_that_is_sent_again_is_dropped(server: JournaledServer) -> None:
    with watch(server, "log", "x", "DISTINCT") as client:
        for batch in (5, 5, 4, 0):
            assert put(server, batch, "DISTINCT", [row("log", x=str(batch))])[0] == 200
        assert put(server, 5, "DISTINCT", [row("log", x="again")]) == (200, REPEATED)
        assert put(server, 6, "DISTINCT", [row("log", x="6")]) == (200, {"rows": 1, **DONE})
        assert told(client, 3) == ["EOS,1,1", "U,1,1,5", "U,1,1,6"]
    assert [kind for _, kind, _ in server.journal] == ["update", "batch"] * 2


def test_a_batch_without_rows_counts(server: JournaledServer) -> None:
    assert put(server, 0, "MERGE", []) == (200, {"rows": 0, **DONE})
    assert put(server, 0, "MERGE", []) == (200, REPEATED)


def test_a_command_that_is_not_there_is_found_by_the_rows_that_are(server: JournaledServer) -> None:
    with watch(server, "orders", "key command x", "COMMAND") as client:
        rows: list[tuple[str, str | None, str | None]]
        rows = [("a", None, "1"), ("a", None, "2"), ("b", "UPDATE", "3"), ("a", "ADD", "4"), ("a", "DELETE", "5")]
        rows += [("a", "DELETE", None), ("a", None, "6")]
        batch = [row("orders", key=key, command=command, x=x) for key, command, x in rows]
        assert put(server, 0, "COMMAND", batch) == (200, {"rows": 7, "ignored": 1, "repeated": False})
        assert told(client, 7) == [
            "EOS,1,1",
            "U,1,1,a|ADD|1",
            "U,1,1,|UPDATE|2",
            "U,1,1,b|ADD|3",
            "U,1,1,a|UPDATE|4",
            "U,1,1,|DELETE|#",
            "U,1,1,|ADD|6",
        ]
        assert put(server, 1, "COMMAND", [row("orders", key="b", x="7")]) == (200, {"rows": 1, **DONE})
        assert told(client, 1) == ["U,1,1,b|UPDATE|7"]
    commands = [json.loads(value or "").get("command") for _, kind, value in server.journal if kind == "update"]
    assert commands == ["ADD", "UPDATE", "ADD", "UPDATE", "DELETE", "ADD", "UPDATE"]


def test_lines_that_come_in_between_are_taken_into_account(server: JournaledServer) -> None:
    put(server, 0, "COMMAND", [row("orders", key="a", x="1")])
    line = '{"item": "orders", "fields": {"key": "a", "command": "DELETE"}}'
    assert ask(server, "POST", "", line, kind="application/json")[1]["accepted"] == 1
    put(server, 1, "COMMAND", [row("orders", key="a", x="2")])
    commands = [json.loads(value or "").get("command") for _, kind, value in server.journal if kind == "update"]
    assert commands == ["ADD", "DELETE", "ADD"]


def test_items_that_are_not_journaled_are_published_and_the_number_of_the_batch_is_kept(
    server: JournaledServer,
) -> None:
    with watch_part(server) as client:
        assert put(server, 0, "MERGE", [row("sensor-1", x="1"), row("total", x="2")], "PART")[0] == 200
        assert told(client, 2) == ["U,1,1,1", "U,1,2,2"]
    assert [(entity, kind) for entity, kind, _ in server.journal] == [
        ("SET/PART/total", "update"),
        ("SET/PART#q", "batch"),
    ]


def watch_part(server: SetServer) -> Any:
    client = server.open()
    assert server.subscribe(client, "sensor-1 total", "x", data_adapter="PART") == ["REQOK,1"]
    client.read_until("CONF")
    return client


def test_values_are_written_out(server: JournaledServer) -> None:
    types = {"x": pa.float64(), "y": pa.timestamp("us", "UTC"), "z": pa.bool_()}
    body = stream(table([row("total", x=0.1, y=1_769_860_800_000_000, z=True)], types))
    assert ask(server, "PUT", f"{BATCHES}/0?mode=MERGE", body)[0] == 200
    assert server.journal[0][2] == '{"x":"0.1","y":"2026-01-31T12:00:00.000Z","z":"true"}'


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_arrow_may_be_compressed(server: JournaledServer, compression: str) -> None:
    body = stream(table([row("total", x="7" * 1_000)] * 50), compression=compression)
    assert ask(server, "PUT", f"{BATCHES}/0?mode=MERGE", body)[1]["rows"] == 50


def test_everything_is_known_after_a_restart(tmp_path: Path) -> None:
    with JournaledServer(tmp_path) as server:
        put(server, 4, "COMMAND", [row("orders", key="a", x="1"), row("orders", key="b", x="2")])
        put(server, 5, "MERGE", [row("total", x="1", y="2")])
        ask(server, "POST", "", '{"item": "total", "fields": {"x": 9}}', kind="application/json")
    with JournaledServer(tmp_path) as server:
        assert ask(server, "GET", "/queries/q")[1] == {"batch": 5}
        assert put(server, 5, "MERGE", [row("total", x="again")])[1] == REPEATED
        with watch(server, "orders", "key command x", "COMMAND") as client:
            assert told(client, 3) == ["U,1,1,a|ADD|1", "U,1,1,b||2", "EOS,1,1"]
        with watch(server, "total", "x y") as client:
            assert told(client, 1) == ["U,1,1,9|2"]
        assert len(server.journal) == 6, "what is told to newcomers is not recorded again"


# -- rows that cannot be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "bad", "error"),
    [
        ("MERGE", row(None, x="1"), "column item has no value"),
        ("MERGE", row("elsewhere", x="1"), "item 'elsewhere' is not declared"),
        ("MERGE", row("log", x="1"), "item 'log' is declared DISTINCT; the batch is MERGE"),
        ("COMMAND", row("total", x="1", key="a"), "item 'total' is declared MERGE; the batch is COMMAND"),
        ("COMMAND", row("orders", x="1"), "no key, which a COMMAND item needs"),
        ("COMMAND", row("orders", key="", x="1"), "no key, which a COMMAND item needs"),
        ("COMMAND", row("orders", key="a", command="PUT"), "command 'PUT': expected ADD, UPDATE, DELETE or nothing"),
        ("MERGE", row("total", a="1", b="1", c="1", d="1", e="1"), "max_fields = 4"),
    ],
)
def test_one_bad_row_and_nothing_is_done(
    server: JournaledServer, mode: str, bad: dict[str, object], error: str
) -> None:
    good = row("total", x="1") if mode == "MERGE" else row("orders", key="good", x="1")
    status, answer = put(server, 0, mode, [good, bad, good])
    assert status == 422
    assert answer["errors"][0]["row"] in (1, 2), "columns are those of all rows"
    assert error in answer["errors"][-1]["error"]
    assert server.journal == []
    assert ask(server, "GET", "/queries/q")[1] == {"batch": None}
    assert put(server, 0, mode, [good])[1] == {"rows": 1, **DONE}


def test_items_and_rows_beyond_a_limit_are_refused_and_none_before_them_is_taken(server: JournaledServer) -> None:
    rows = [row(f"sensor-{number}", x="1") for number in range(6)]
    assert put(server, 0, "MERGE", rows) == (
        422,
        {
            "errors": [
                {"row": 5, "error": "item 'sensor-4' is one more than max_items = 4"},
                {"row": 6, "error": "item 'sensor-5' is one more than max_items = 4"},
            ]
        },
    )
    rows = [row("orders", key=key, x="1") for key in "abcd"]
    assert put(server, 0, "COMMAND", rows)[1] == {
        "errors": [{"row": 4, "error": "key 'd' is one more than max_rows = 3"}]
    }
    assert put(server, 0, "MERGE", [row(f"sensor-{number}", x="1") for number in range(4)])[0] == 200


def test_ten_errors_are_named(server: JournaledServer) -> None:
    status, answer = put(server, 0, "MERGE", [row("elsewhere", x="1")] * 25)
    assert (status, [error["row"] for error in answer["errors"]]) == (422, list(range(1, 11)))


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/queries/q/batches/0", "mode '': expected MERGE, DISTINCT, COMMAND"),
        ("/queries/q/batches/0?mode=RAW", "mode 'RAW': expected MERGE, DISTINCT, COMMAND"),
        ("/queries/q/batches/-1?mode=MERGE", "batch '-1': expected a whole number, 0 or more"),
        ("/queries/q/batches/x?mode=MERGE", "batch 'x': expected a whole number, 0 or more"),
        (f"/queries/{'q' * 129}/batches/0?mode=MERGE", "expected 1 to 128 letters"),
        ("/queries/a%23b/batches/0?mode=MERGE", "query 'a#b': expected 1 to 128 letters"),
        ("/queries/q/batches/0/stages/a%20b", "stage 'a b': expected 1 to 128 letters"),
    ],
)
def test_an_address_that_makes_no_sense_is_told(server: JournaledServer, path: str, error: str) -> None:
    status, answer, _ = ask(server, "PUT", path, stream(table([row("total", x="1")])))
    assert status == 422
    assert error in answer["errors"][0]["error"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", ""),
        (b"garbage", ""),
        (stream(table([row("total", x="1")]))[:-60], ""),
        (stream(pa.record_batch({"name": ["total"], "x": [1]})), "no column item; the table has name, x"),
        (stream(pa.record_batch({"item": ["total"], "x": [[1]]})), "column x is of type list"),
        (stream(pa.record_batch({"item": ["total"]})), "an update without fields"),
        (stream(table([row("total", x=2**62)], {"x": pa.timestamp("us")})), "outside of the years"),
    ],
)
def test_a_body_that_is_not_rows_is_refused(server: JournaledServer, body: bytes, error: str) -> None:
    status, answer, _ = ask(server, "PUT", f"{BATCHES}/0?mode=MERGE", body)
    assert (status, answer["errors"][0]["row"]) == (422, 1)
    assert error in answer["errors"][0]["error"]


# -- stages -----------------------------------------------------------------------------------------------------------


def stage(server: SetServer, name: str, rows: Sequence[Mapping[str, object]], batch: int = 0, **more: Any) -> Any:
    return ask(server, "PUT", f"{BATCHES}/{batch}/stages/{name}", stream(table(rows)), **more)


def commit(server: SetServer, stages: object, batch: int = 0, mode: str = "MERGE") -> tuple[int, Any]:
    body = json.dumps({"stages": stages})
    return ask(server, "POST", f"{BATCHES}/{batch}/commit?mode={mode}", body, kind="application/json")[:2]


def test_stages_are_published_by_their_commit_in_its_order(server: JournaledServer) -> None:
    with watch(server, "log", "x", "DISTINCT") as client:
        for _ in range(2):
            assert stage(server, "0-0", [row("log", x="1"), row("log", x="2")])[:2] == (200, STAGED)
        assert stage(server, "1-0", [row("log", x="lost attempt")])[0] == 200
        assert stage(server, "1-1", [row("log", x="3")])[0] == 200
        assert server.journal == []
        assert commit(server, ["1-1", "0-0"], mode="DISTINCT") == (200, {"rows": 3, **DONE})
        assert told(client, 4) == ["EOS,1,1", "U,1,1,3", "U,1,1,1", "U,1,1,2"]
    assert commit(server, ["1-1", "0-0"], mode="DISTINCT") == (200, REPEATED)
    assert stage(server, "0-0", [row("log", x="late")])[:2] == (200, {"rows": 1, "repeated": True})
    assert server.call(lambda: server.ingest.batches and server.ingest.batches.stages.staged_bytes) == 0


def test_a_stage_that_is_there_with_other_rows_is_refused_and_stays(server: JournaledServer) -> None:
    rows = [row("total", x="1"), row("total", x="2")]
    assert stage(server, "0-0", rows)[:2] == (200, STAGED)
    status, answer, _ = stage(server, "0-0", [row("total", x="3")])
    assert status == 409
    assert answer["errors"][0]["error"].startswith("stage '0-0' of batch 0 is there with other rows")
    assert commit(server, ["0-0"]) == (200, {"rows": 2, **DONE})
    assert server.journal[1][2] == '{"x":"2"}'


def test_a_stage_of_another_query_or_batch_is_not_there(server: JournaledServer) -> None:
    stage(server, "0-0", [row("total", x="1")])
    for path in ("/queries/other/batches/0", f"{BATCHES}/1"):
        body = json.dumps({"stages": ["0-0"]})
        status, _, _ = ask(server, "POST", f"{path}/commit?mode=MERGE", body, kind="application/json")
        assert status == 409
    assert server.journal == []
    assert commit(server, ["0-0"]) == (200, {"rows": 1, **DONE})


def test_stages_outlive_a_restart_and_damaged_ones_count_as_missing(tmp_path: Path) -> None:
    with JournaledServer(tmp_path) as server:
        stage(server, "0-0", [row("total", x="1")])
        stage(server, "1-0", [row("total", x="2")])
        stage(server, "0-0", [row("total", x="3")], 1)
    (directory,) = tmp_path.glob("*/SET.ADAPTER.stages")
    files = list(directory.iterdir())
    assert len(files) == 3
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    (directory / "left.tmp").write_bytes(b"half of one")
    (directory / f"{'0' * 64}.stage").write_bytes(b"another's")
    damaged = next(file for file in files if b'"batch":1' in file.read_bytes())
    content = bytearray(damaged.read_bytes())
    content[-20] ^= 1
    damaged.write_bytes(content)
    with JournaledServer(tmp_path) as server:
        assert sorted(directory.iterdir()) == sorted(files)
        assert commit(server, ["1-0", "0-0"]) == (200, {"rows": 2, **DONE})
        status, answer = commit(server, ["0-0"], 1)
        assert (status, answer["errors"][0]["error"]) == (409, "stage '0-0' of batch 1 is not known; stage it again")
        assert [value for _, _, value in server.journal] == ['{"x":"2"}', '{"x":"1"}', '{"batch":0,"rows":2}']
        assert list(directory.iterdir()) == []


def test_a_stage_that_is_not_here_is_named_and_nothing_is_done(server: JournaledServer) -> None:
    stage(server, "0-0", [row("total", x="1")])
    status, answer = commit(server, ["0-0", "1-0"])
    assert (status, answer) == (409, {"errors": [{"error": "stage '1-0' of batch 0 is not known; stage it again"}]})
    assert server.journal == []
    assert commit(server, ["0-0"])[0] == 200


def test_a_bad_row_is_named_by_its_stage(server: JournaledServer) -> None:
    stage(server, "0-0", [row("total", x="1")] * 5)
    stage(server, "1-0", [row("total", x="1"), row("log", x="1")])
    status, answer = commit(server, ["0-0", "1-0"])
    error = "item 'log' is declared DISTINCT; the batch is MERGE"
    assert (status, answer) == (422, {"errors": [{"stage": "1-0", "row": 2, "error": error}]})


def test_stages_may_be_dropped(server: JournaledServer) -> None:
    stage(server, "0-0", [row("total", x="1")])
    assert ask(server, "DELETE", f"{BATCHES}/0")[:2] == (200, {})
    assert commit(server, ["0-0"])[0] == 409


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"stages": "0-0"}', '{"stages": [], "more": 1}', '{"stages": [1]}'])
def test_a_commit_that_cannot_be_read_is_refused(server: JournaledServer, body: str) -> None:
    status, answer, _ = ask(server, "POST", f"{BATCHES}/0/commit?mode=MERGE", body, kind="application/json")
    assert status == 422
    assert "a JSON object with a list of stages" in answer["errors"][0]["error"]


def test_a_stage_that_is_named_twice_is_refused(server: JournaledServer) -> None:
    stage(server, "0-0", [row("total", x="1")])
    assert commit(server, ["0-0", "0-0"]) == (422, {"errors": [{"error": "A stage is named twice"}]})


# -- what does not fit ------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused(server: JournaledServer) -> None:
    body = stream(table([row("x", a="y" * 100)] * 100))
    status, answer, _ = ask(server, "PUT", f"{BATCHES}/0?mode=MERGE", body, adapter="SMALL")
    assert status == 413
    assert answer["errors"][0]["error"].startswith("The body is larger than max_body_bytes = 8000: send fewer rows")


def test_a_body_that_unpacks_to_too_much_is_refused(server: JournaledServer) -> None:
    body = stream(table([row("x", a="y" * 1_000)] * 100), compression="zstd")
    assert len(body) < 8_000
    for request in (f"{BATCHES}/0?mode=MERGE", f"{BATCHES}/0/stages/0-0"):
        status, answer, _ = ask(server, "PUT", request, body, adapter="SMALL")
        assert status == 413
        assert "bytes after decompression; max_body_bytes = 8000" in answer["errors"][0]["error"]
    assert ask(server, "POST", "", body, adapter="SMALL")[0] == 413


def test_a_batch_that_no_append_can_hold_is_published_as_a_whole(server: JournaledServer) -> None:
    """It takes 35 MB in the journal, in one request."""
    body = stream(table([row("total", a="y" * 100_000, n=str(number)) for number in range(350)]), compression="zstd")
    with watch(server, "total", "n") as client:
        status, answer, _ = ask(server, "PUT", f"{BATCHES}/0?mode=MERGE", body)
        assert (status, answer) == (200, {"rows": 350, **DONE})
        # A MERGE item may leave some out for a slow client, but never the last.
        while told(client, 1) != ["U,1,1,349"]:
            pass
    found = server.journal
    assert [entity for entity, _, _ in found] == ["SET/ADAPTER/total"] * 350 + ["SET/ADAPTER#q"]
    assert [json.loads(value or "")["n"] for _, _, value in found[:-1]] == [str(number) for number in range(350)]
    assert ask(server, "GET", "/queries/q")[1] == {"batch": 0}


def test_an_event_that_no_record_can_hold_is_refused_with_its_size(server: JournaledServer) -> None:
    body = stream(table([row("total", a="y" * 33_000_000)]), compression="zstd")
    status, answer, _ = ask(server, "PUT", f"{BATCHES}/0?mode=MERGE", body)
    assert status == 413
    assert answer["errors"][0]["error"] == (
        "an event takes 33000025 bytes; a record of the journal has at most 32505856"
    )
    assert server.journal == []


def test_stages_wait_for_room(server: JournaledServer) -> None:
    rows = [row("x", a="y" * 2_500)]
    assert stage(server, "0-0", rows, adapter="SMALL")[0] == 200
    status, answer, headers = stage(server, "0-0", rows, 1, adapter="SMALL")
    assert (status, headers["retry-after"]) == (429, "1")
    assert "max_staged_bytes = 6000" in answer["errors"][0]["error"]
    assert ask(server, "DELETE", f"{BATCHES}/0", adapter="SMALL")[0] == 200
    assert stage(server, "0-0", rows, 1, adapter="SMALL")[0] == 200
    status, answer, _ = stage(server, "1-0", rows, 1, adapter="SMALL")
    assert status == 413, "there will never be room for both"
    assert "the stages of batch 1 hold" in answer["errors"][0]["error"]


# -- the journal refuses ----------------------------------------------------------------------------------------------


@pytest.fixture
def refusing(server: JournaledServer) -> Iterator[JournaledServer]:
    """Its journal cannot begin another file, for the directory is away; it comes back at the end."""
    journal, away = server.data_dir / "journal", server.data_dir / "away"
    journal.rename(away)
    rows = [row("x", a="y" * 1_000)] * 70
    statuses = [put(server, batch, "MERGE", rows, "LARGE")[0] for batch in range(3)]
    assert statuses[-1] == 503
    yield server
    if away.exists():
        away.rename(journal)


def test_a_journal_that_refuses_is_told_and_nothing_has_changed(refusing: JournaledServer) -> None:
    server = refusing
    with watch(server, "total", "x") as client:
        path, body = f"{BATCHES}/9?mode=MERGE", stream(table([row("total", x="1")]))
        status, answer, headers = ask(server, "PUT", path, body)
        assert (status, headers["retry-after"]) == (503, "1")
        assert "the journal cannot be written" in answer["errors"][0]["error"]
        assert ask(server, "GET", "/queries/q")[1] == {"batch": None}
        (server.data_dir / "away").rename(server.data_dir / "journal")
        while ask(server, "PUT", path, body)[0] != 200:
            pass
        assert told(client, 1) == ["U,1,1,1"]
    assert [entity for entity, _, _ in server.journal][-2:] == ["SET/ADAPTER/total", "SET/ADAPTER#q"]


def test_lines_of_an_acknowledging_adapter_are_refused_before_anything_is_taken_in(refusing: JournaledServer) -> None:
    line = '{"item": "total", "fields": {"x": 1}}'
    status, answer, headers = ask(refusing, "POST", "", line, kind="application/json")
    assert (status, answer["accepted"], headers["retry-after"]) == (503, 0, "1")
    assert ask(refusing, "POST", "", line, kind="application/json", adapter="PART")[1]["accepted"] == 1


def test_lines_of_an_acknowledging_adapter_are_on_the_disk_when_they_are_answered(server: JournaledServer) -> None:
    lines = '{"item": "total", "fields": {"x": 1}}\n{"item": "total", "op": "clear"}\n'
    lines += '{"item": "log", "fields": {"x": 2}, "snapshot": true}'
    assert ask(server, "POST", "", lines, kind="application/json")[1]["accepted"] == 3
    assert server.journal == [
        ("SET/ADAPTER/total", "update", '{"x":"1"}'),
        ("SET/ADAPTER/total", "clear", None),
        ("SET/ADAPTER/log", "snapshot", '{"x":"2"}'),
    ]


# -- who may ----------------------------------------------------------------------------------------------------------

ALL = [
    ("GET", ""),
    ("GET", "/queries/q"),
    ("PUT", f"{BATCHES}/0?mode=MERGE"),
    ("PUT", f"{BATCHES}/0/stages/0-0"),
    ("POST", f"{BATCHES}/0/commit?mode=MERGE"),
    ("DELETE", f"{BATCHES}/0"),
]


def test_every_request_needs_a_token(server: JournaledServer) -> None:
    for (method, path), token in product(ALL, (None, "", TOKEN[:-1], TOKEN + "x")):
        status, answer, headers = ask(server, method, path, token=token)
        assert (status, headers["www-authenticate"]) == (401, "Bearer"), path
        told = "The token is not one of this adapter" if token else "Expected a token of this adapter: a header "
        assert answer["errors"][0]["error"].startswith(told)


def test_there_are_batches_for_ingest_adapters_only(server: JournaledServer) -> None:
    for (method, path), adapter in product(ALL, ("NONE", "PLAIN")):
        status, answer, _ = ask(server, method, path, adapter=adapter)
        error = {"error": f"There is no ingest adapter {adapter} in set SET"}
        assert (status, answer) == (404, {"errors": [error]}), path


def test_an_adapter_that_is_not_journaled_takes_no_batches(server: JournaledServer) -> None:
    for method, path in ALL[1:]:
        status, answer, _ = ask(server, method, path, adapter="OPEN")
        assert status == 409, path
        assert "[adapters.SET.data.OPEN.journal]" in answer["errors"][0]["error"]


@pytest.mark.parametrize("headers", [{"kind": "application/json"}, {"kind": ""}, {"Content_Encoding": "gzip"}])
def test_rows_come_as_arrow(server: JournaledServer, headers: dict[str, Any]) -> None:
    body = stream(table([row("total", x="1")]))
    assert ask(server, "PUT", f"{BATCHES}/0?mode=MERGE", body, **headers)[0] == 415
    assert ask(server, "PUT", f"{BATCHES}/0/stages/0-0", body, **headers)[0] == 415


def test_a_client_that_goes_away_in_the_middle_of_a_body_has_done_nothing(server: JournaledServer) -> None:
    with socket.create_connection((server.host, server.api_port), 15) as sender:
        head = f"PUT /api/ingest/SET/ADAPTER{BATCHES}/0?mode=MERGE HTTP/1.1\r\nHost: x\r\nContent-Type: {ARROW}\r\n"
        sender.sendall(f"{head}Authorization: Bearer {TOKEN}\r\nContent-Length: 5000\r\n\r\nhalf".encode())
    assert put(server, 0, "MERGE", [row("total", x="1")])[1] == {"rows": 1, **DONE}


def test_while_the_server_goes_down_an_adapter_that_is_gone_is_worth_another_try(server: JournaledServer) -> None:
    def stop_adapters() -> None:
        server.server.sets.running.clear()
        server.server._ready = False

    running = dict(server.server.sets.running)
    server.call(stop_adapters)
    for method, path in ALL:
        status, answer, headers = ask(server, method, path)
        assert (status, headers["retry-after"]) == (503, "1"), path
        assert answer["errors"] == [{"error": "The server is starting or shutting down"}]
    server.call(server.server.sets.running.update, running)
