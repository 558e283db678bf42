"""SQL that Spark answers once and cannot answer as a stream: `config check` says so, in one sentence, of each kind.

Asked of classic Spark, as `config check` does. What is refused through Spark Connect: `test_live_queries`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.config import load
from penstock.pipeline.place import Place
from tests.pipeline.test_live_queries import PLANT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
[pipeline.tables.limits]
adapter = "PLANT/LIMITS"
item = "l.{machine}"
fields = { celsius = "double" }
[pipeline.queries.x]
to = "SET/OUT"
item = "x"
"""

BOTH = "SELECT r.machine, r.celsius FROM plant.readings r"
ON = "plant.limits l ON r.machine = l.machine"
BOUNDS = "AND l.time BETWEEN r.time - INTERVAL 5 MINUTES AND r.time"
MINUTES = "SELECT machine, window.start AS minute, count(*) AS n FROM plant.readings"
BY_MINUTE = "GROUP BY machine, window(time, '1 minute')"
SESSIONS = f"{MINUTES} {BY_MINUTE}".replace("window", "session_window")
WINDOWS = f"(SELECT machine, window, count(*) AS n FROM plant.readings {BY_MINUTE})"
FIXED = "(SELECT max(machine) AS machine FROM (VALUES ('a')) AS v(machine))"
LARGEST = "(SELECT machine, max(celsius) FROM plant.limits GROUP BY machine)"

CLOSED = 'output_mode = "append" publishes a group when it is closed, so it needs a watermark other than "never", and '
SORTED = "the rows of a stream cannot be sorted by ORDER BY or SORT BY, because there is no last one; "
TWICE = 'rows that were grouped or deduplicated can be grouped, joined or deduplicated again only with output_mode = "'
UPDATED = 'LEFT, RIGHT and FULL JOIN of two tables need output_mode = "append"'
BOUNDED = 'LEFT, RIGHT, FULL and SEMI JOIN of two tables need a watermark other than "never" and '


def check(spark: SparkSession, tmp_path: Path, sql: str, output_mode: str, watermark: str) -> None:
    from penstock.pipeline.queries import catalog_of, checked, live_query
    from penstock.pipeline.streaming_sql import empty

    path = tmp_path / "penstock.toml"
    path.write_text(f'{PLANT}{QUERY}sql = """{sql}"""\noutput_mode = "{output_mode}"\nwatermark = "{watermark}"\n')
    config = load(path, {}).config
    query = live_query(config, "x")
    checked(spark, query, catalog_of(config, None), query.target(Place(tmp_path, "http://h")), empty(spark, watermark))


@pytest.mark.parametrize(("output_mode", "watermark"), [("update", "never"), ("append", "10 minutes")])
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT machine FROM plant.readings ORDER BY celsius", SORTED),
        ("SELECT machine FROM plant.readings ORDER BY celsius LIMIT 3", SORTED),
        ("SELECT machine FROM plant.readings SORT BY celsius", SORTED),
        ("SELECT machine FROM plant.readings LIMIT 3 OFFSET 2", "OFFSET is not possible in a stream"),
        ("SELECT machine FROM plant.readings TABLESAMPLE (10 PERCENT)", "TABLESAMPLE is not possible in a stream; "),
        (
            "SELECT machine, lag(celsius) OVER (PARTITION BY machine ORDER BY time) AS before FROM plant.readings",
            "functions with OVER are not possible in a stream; ",
        ),
        (f"{MINUTES} {BY_MINUTE} QUALIFY row_number() OVER (ORDER BY machine) = 1", "functions with OVER are not "),
        (f"{BOTH} LEFT ANTI JOIN {ON}", "EXCEPT, NOT IN and ANTI JOIN of two tables are not possible in a stream, "),
        ("SELECT item FROM plant.readings EXCEPT SELECT item FROM plant.limits", "EXCEPT, NOT IN and ANTI JOIN of"),
        ("SELECT item FROM plant.readings INTERSECT SELECT item FROM plant.limits", "INTERSECT is not possible in a "),
        ("SELECT item FROM plant.readings UNION ALL SELECT 'x' AS item", "UNION of a table and fixed rows is not "),
        (f"{BOTH} JOIN plant.limits l ON r.celsius > l.celsius", "JOIN of two tables needs an equality, such as "),
        (f"{BOTH} CROSS JOIN plant.limits l", "JOIN of two tables needs an equality, such as "),
        (f"{BOTH} WHERE machine IN (SELECT machine FROM plant.limits)", "a subquery of WHERE or SELECT cannot read "),
        ("SELECT (SELECT max(celsius) FROM plant.limits) AS m FROM plant.readings", "a subquery of WHERE or SELECT "),
        (
            "SELECT v.machine FROM (VALUES ('a')) v(machine) LEFT JOIN plant.readings r ON r.machine = v.machine",
            "LEFT and RIGHT JOIN of a table and fixed rows must keep the rows of the table",
        ),
        (
            "SELECT machine, monotonically_increasing_id() AS n FROM plant.readings",
            "monotonically_increasing_id() is not possible in a stream",
        ),
    ],
)
def test_what_no_stream_can_do_is_refused(
    spark: SparkSession, tmp_path: Path, sql: str, message: str, output_mode: str, watermark: str
) -> None:
    refused(spark, tmp_path, sql, output_mode, watermark, message)


@pytest.mark.parametrize(
    ("sql", "output_mode", "watermark", "message"),
    [
        ("SELECT machine FROM plant.readings LIMIT 3", "update", "", 'LIMIT needs output_mode = "append", '),
        (f"{MINUTES} {BY_MINUTE}", "append", "never", CLOSED),
        (f"{MINUTES} {BY_MINUTE}", "append", "", CLOSED),
        ("SELECT machine, count(*) AS n FROM plant.readings GROUP BY machine", "append", "10 minutes", CLOSED),
        ("SELECT machine, count(*) AS n FROM plant.readings GROUP BY machine", "update", "", "it groups, joins or "),
        ("SELECT count(*) AS n FROM plant.readings", "append", "10 minutes", CLOSED),
        ("SELECT DISTINCT machine FROM plant.readings", "append", "10 minutes", CLOSED),
        ("SELECT item FROM plant.readings UNION SELECT item FROM plant.limits", "append", "10 minutes", CLOSED),
        ("SELECT DISTINCT machine FROM plant.readings", "update", "", "it groups, joins or deduplicates rows "),
        ("SELECT count(DISTINCT machine) AS n FROM plant.readings", "update", "never", "aggregates of DISTINCT "),
        (f"{MINUTES} {BY_MINUTE} ORDER BY n LIMIT 3", "update", "10 minutes", SORTED),
        (f"SELECT max(n) AS most FROM ({MINUTES} {BY_MINUTE})", "update", "10 minutes", TWICE),
        ("SELECT count(*) AS n FROM (SELECT DISTINCT machine FROM plant.readings)", "update", "10 minutes", TWICE),
        (f"{BOTH} JOIN {LARGEST} l ON r.machine = l.machine", "update", "never", TWICE),
        (SESSIONS, "update", "10 minutes", 'session_window needs output_mode = "append"'),
        (f"{BOTH} LEFT JOIN {ON} {BOUNDS}", "update", "10 minutes", UPDATED),
        (f"{BOTH} FULL JOIN {ON} {BOUNDS}", "update", "10 minutes", UPDATED),
        (f"{BOTH} RIGHT JOIN {ON}", "update", "", UPDATED),
        (f"{BOTH} LEFT JOIN {ON}", "append", "10 minutes", BOUNDED),
        (f"{BOTH} LEFT JOIN {ON} {BOUNDS}", "append", "never", BOUNDED),
        (f"{BOTH} RIGHT JOIN {ON}", "append", "", BOUNDED),
        (f"{BOTH} SEMI JOIN {ON}", "update", "10 minutes", BOUNDED),
        (f"{BOTH} JOIN {ON}", "update", "", "it groups, joins or deduplicates rows of a stream, so it needs a "),
    ],
)
def test_what_another_mode_or_watermark_could_do_says_which(
    spark: SparkSession, tmp_path: Path, sql: str, output_mode: str, watermark: str, message: str
) -> None:
    from penstock.pipeline.errors import BadQuery

    # Not only a warning while there is no journal.
    assert isinstance(refused(spark, tmp_path, sql, output_mode, watermark, message), BadQuery)


def refused(spark: SparkSession, tmp_path: Path, sql: str, output_mode: str, watermark: str, message: str) -> Exception:
    from penstock.pipeline.errors import BadOption

    with pytest.raises(BadOption) as caught:
        check(spark, tmp_path, sql, output_mode, watermark)
    told = str(caught.value)
    assert told.startswith(f"pipeline.queries.x: {message}")
    assert "\n" not in told
    assert "DataFrame" not in told
    return caught.value


@pytest.mark.parametrize(
    ("sql", "output_mode", "watermark"),
    [
        ("SELECT machine FROM plant.readings LIMIT 3", "append", ""),
        (f"{MINUTES} {BY_MINUTE}", "append", "10 minutes"),
        ("SELECT DISTINCT machine, time FROM plant.readings", "append", "10 minutes"),
        ("SELECT approx_count_distinct(machine) AS n FROM plant.readings", "update", "never"),
        (f"SELECT max(n) AS most FROM {WINDOWS} GROUP BY window", "append", "10 minutes"),
        (f"SELECT count(*) AS n FROM ({BOTH} JOIN {ON})", "update", "10 minutes"),
        (SESSIONS, "append", "10 minutes"),
        (f"{BOTH} JOIN {ON}", "update", "never"),
        # Nothing is kept of rows that are there from the beginning.
        (f"{BOTH} JOIN (VALUES ('a')) v(machine) ON r.machine = v.machine", "update", ""),
        (f"{BOTH} LEFT JOIN {FIXED} v ON r.machine = v.machine WHERE v.machine IS NULL", "update", ""),
        *((f"{BOTH} {kind} JOIN {ON} {BOUNDS}", "append", "10 minutes") for kind in ("LEFT", "RIGHT", "FULL", "SEMI")),
        ("SELECT machine FROM plant.readings UNION ALL SELECT machine FROM plant.limits", "update", ""),
    ],
)
def test_what_is_advised_is_allowed(
    spark: SparkSession, tmp_path: Path, sql: str, output_mode: str, watermark: str
) -> None:
    check(spark, tmp_path, sql, output_mode, watermark)
