"""Names of tables in SQL are replaced; texts, comments and other names are not."""

from __future__ import annotations

import pytest

from penstock.pipeline.sqltext import replaced


def view(name: str) -> str | None:
    return "V" if name in ("plant.readings", "a b.c`d") else None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM plant.readings", "SELECT * FROM V"),
        ("SELECT Plant . READINGS .celsius, r.x FROM plant.readings r", "SELECT V .celsius, r.x FROM V r"),
        ("FROM `plant`.`readings` JOIN plant.`readings`", "FROM V JOIN V"),
        ("FROM `a b`.`c``d`", "FROM V"),
        ("FROM plant.other, plant, readings", "FROM plant.other, plant, readings"),
        ("SELECT x.plant.readings, f().plant.readings", "SELECT x.plant.readings, f().plant.readings"),
        ("SELECT 'plant.readings', \"plant.readings\"", "SELECT 'plant.readings', \"plant.readings\""),
        (r"SELECT 'it\'s plant.readings' FROM plant.readings", r"SELECT 'it\'s plant.readings' FROM V"),
        ("SELECT 'a''plant.readings' FROM plant.readings", "SELECT 'a''plant.readings' FROM V"),
        (r"SELECT r'\' FROM plant.readings", r"SELECT r'\' FROM V"),
        ("-- plant.readings\nFROM plant.readings", "-- plant.readings\nFROM V"),
        ("/* plant.readings /* plant.readings */ plant.readings */ plant.readings", None),
        ("/* plant.readings", "/* plant.readings"),
        ("SELECT 1.plant, 'open plant.readings", "SELECT 1.plant, 'open V"),
        ("", ""),
    ],
)
def test_names_are_replaced_where_they_are_names(sql: str, expected: str | None) -> None:
    wanted = expected
    if wanted is None:
        wanted = sql.removesuffix("plant.readings") + "V"
    assert replaced(sql, view) == wanted
