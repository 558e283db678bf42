"""Which typed tables there are: declared, of every journaled adapter, of things and payloads; and inferred types."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import load
from penstock.history.catalog import Catalog, TableError, described, discovered
from penstock.history.inference import inferred
from penstock.journal.reader import JournalReader
from tests.pipeline.world import make_journal

PLANT = """
[demo]
enabled = false
[adapters.PLANT.data.READINGS]
adapter = "ingest"
parameters = { items = ["*"], tokens = ["a-token-of-more-than-16-characters"] }
[adapters.PLANT.data.READINGS.journal]
items = ["*"]
[adapters.PLANT.data.OTHER]
adapter = "ingest"
parameters = { items = ["*"], tokens = ["a-token-of-more-than-16-characters"] }
"""


# The demo has things.
QUIET = "[demo]\nenabled = false\n"


def catalog(tmp_path: Path, text: str, *, data: bool = False) -> Catalog:
    path = tmp_path / "penstock.toml"
    path.write_text(text)
    return Catalog(load(path, {}).config, tmp_path if data else None)


def test_every_journaled_adapter_has_a_table(tmp_path: Path) -> None:
    assert catalog(tmp_path, PLANT).names() == ["plant.readings"]


def test_payloads_and_things_have_tables_of_their_own(tmp_path: Path) -> None:
    make_journal(tmp_path / "journal", [("TLEX/TLEX/u", "payload", "{}"), ("DITTO/THINGS/a:b", "created", "{}")])
    found = catalog(tmp_path, QUIET, data=True)
    assert found.names() == ["ditto.attributes", "ditto.features", "ditto.things", "tlex.payloads"]
    assert described(found.table("tlex.payloads")) == {
        "time": "timestamp",
        "item": "string",
        "revision": "bigint",
        "domain": "string",
        "identifier": "string",
        "publisher": "string",
        "session": "string",
        "type": "int",
        "sent": "timestamp",
        "payload": "binary",
        "sequence": "bigint",
        "received": "timestamp",
        "kind": "string",
        "misfits": "int",
    }


def test_a_declared_table_has_the_columns_of_its_pattern_and_fields(tmp_path: Path) -> None:
    text = """
[pipeline.tables.heat]
adapter = "PLANT/READINGS"
item = "reading.{machine}.{n}"
fields = { celsius = "double", n = "INT", said = { from = "a note", type = "string" } }
time = "at"
"""
    table = catalog(tmp_path, PLANT + text).table("Plant.HEAT")
    names = list(described(table).items())[3:-4]
    assert names == [("machine", "string"), ("n", "int"), ("celsius", "double"), ("said", "string")]
    assert (table.time, table.kinds, table.inferred) == ("at", ("update",), False)
    assert table.selection.entities == ("PLANT/READINGS/reading.*.*",)


def test_a_declared_table_may_take_the_place_of_the_one_that_is_there_anyway(tmp_path: Path) -> None:
    text = '[pipeline.tables."plant.readings"]\nadapter = "PLANT/READINGS"\nfields = { celsius = "double" }\n'
    found = catalog(tmp_path, PLANT + text)
    assert found.names() == ["plant.readings"]
    assert not found.table("plant.readings").inferred


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('fields = { c = "duble" }', "pipeline.tables.t.fields.c = 'duble': expected string, boolean, int"),
        ("fields = { c = 1 }", 'pipeline.tables.t.fields.c: expected a type such as "double", or { from ='),
        ('fields = { c = { type = "int" } }', 'expected a type such as "double", or { from = "FIELD"'),
        (
            'fields = { kind = "int" }',
            'every table has a column kind; call it otherwise: kind_ = { from = "kind", type',
        ),
        ('fields = { time = "timestamp" }', 'if it is the time of the event, write time = "time" in the table'),
        ('item = "{revision}"', "every table has a column revision"),
        ('item = "{a}{A}"', "two columns are called a"),
        ('item = "{}"', "expected columns of letters, digits and _; '' is not such a name"),
        ('fields = { "a b" = "int" }', "expected columns of letters, digits and _; 'a b' is not such a name"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_in_one_sentence(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(TableError) as caught:
        catalog(tmp_path, f'[pipeline.tables.t]\nadapter = "PLANT/READINGS"\n{table}\n')
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "a.b.c", "1a", "x_misfits"])
def test_a_name_that_sql_could_not_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TableError, match=r"^pipeline\.tables\..*: expected a name"):
        catalog(tmp_path, f'[pipeline.tables."{name}"]\nadapter = "PLANT/READINGS"\n')


def test_things_are_found_by_pointers(tmp_path: Path) -> None:
    begin = '[pipeline.tables.power]\nadapter = "DITTO/THINGS"\n'
    table = catalog(tmp_path, begin + 'fields = { watts = { from = "/attributes/watts", type = "double" } }\n').table(
        "ditto.power"
    )
    assert (table.shape, table.kinds) == ("changes", ("created", "modified", "merged", "deleted"))
    with pytest.raises(TableError, match="because fields of things are found by JSON pointers"):
        catalog(tmp_path, begin + 'fields = { watts = "double" }\n')
    with pytest.raises(TableError, match="a table of things needs fields"):
        catalog(tmp_path, begin)


def test_an_unknown_table_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    found = catalog(tmp_path, PLANT)
    with pytest.raises(TableError, match=r"^there is no table plant.reading \(did you mean plant.readings\?\); there "):
        found.table("plant.reading")
    with pytest.raises(TableError, match=r"^there is no table x; there are: plant.readings$"):
        found.table("x")


def test_a_side_table_is_found_by_its_name(tmp_path: Path) -> None:
    table = catalog(tmp_path, PLANT).table("plant.readings_misfits")
    assert (table.name, table.misfits) == ("plant.readings_misfits", True)


def test_adapters_are_found_in_the_journal(tmp_path: Path) -> None:
    make_journal(
        tmp_path / "journal",
        [
            ("A/B/c", "update", "{}"),
            ("a%2Fb/c d/e/f", "update", "{}"),
            ("admin", "action", "{}"),
            ("A/B#q", "batch", ""),
        ],
    )
    assert discovered(tmp_path / "lake", JournalReader(tmp_path / "journal")) == {("A", "B"), ("a/b", "c d")}
    assert catalog(tmp_path, QUIET, data=True).names() == ["a.b", "a_b.c_d"]


def test_names_that_are_the_same_in_sql_are_numbered(tmp_path: Path) -> None:
    make_journal(tmp_path / "journal", [("A/b c/i", "update", "{}"), ("a/b-c/i", "update", "{}")])
    assert catalog(tmp_path, QUIET, data=True).names() == ["a.b_c", "a.b_c_2"]


def test_types_are_those_that_fit_all_of_what_is_there() -> None:
    texts = [
        '{"n":"1","t":"2026-01-31T12:00:00Z","on":true,"id":"007","mixed":"1","text":"a","none":null,"Time":"x"}',
        '{"n":"1.5","t":"2026-01-31T12:00:00.5Z","on":"false","id":"008","mixed":"x","long":"12345678901234567890"}',
        "no JSON",
        None,
        '["a"]',
        '{"ms":"1769860800000","time_":"1"}',
    ]
    assert {column.name: (column.type, column.place) for column in inferred(texts)} == {
        "n": ("double", "n"),
        "t": ("timestamp", "t"),
        "on": ("boolean", "on"),
        "id": ("string", "id"),
        "mixed": ("string", "mixed"),
        "text": ("string", "text"),
        "none": ("string", "none"),
        "Time_": ("string", "Time"),
        "long": ("string", "long"),
        "ms": ("double", "ms"),
        "time__": ("double", "time_"),
    }


def test_a_table_that_is_not_declared_has_the_fields_of_its_events(tmp_path: Path) -> None:
    events = [("PLANT/READINGS/a", "update", '{"celsius":"1.5"}'), ("PLANT/OTHER/a", "update", '{"x":"1"}')]
    make_journal(tmp_path / "journal", [*events, ("PLANT/READINGS/a", "snapshot", '{"y":"1"}')])
    table = catalog(tmp_path, PLANT, data=True).table("plant.readings")
    assert [(column.name, column.type) for column in table.columns] == [("celsius", "double")]
    assert table.inferred


def test_a_table_goes_to_other_processes_as_text(tmp_path: Path) -> None:
    table = catalog(tmp_path, PLANT).table("plant.readings").side()
    assert type(table).decoded(table.encoded()) == table
