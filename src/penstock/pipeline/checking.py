"""What `penstock config check` says about tables and queries: names and types always, SQL where Spark is installed.

Spark is asked in a process of its own, because it prints much, and leaves a JVM behind. It sees the columns of tables
and no events. Not here: the checks themselves (`queries`, `streaming_sql`). Read next: docs/sql.md.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.config import Config, load
from penstock.pipeline.errors import BadOption, BadQuery, PipelineError, explain
from penstock.pipeline.place import Place
from penstock.pipeline.queries import catalog_of, checked, live_query

# Seconds for Spark to start and look at a few queries, also on a loaded machine.
PATIENCE = 300


def check_pipeline(config: Config, path: Path | None) -> list[str]:
    """Warnings; raises BadOption. `path` is the file that the configuration is from."""
    if not config.pipeline.tables and not config.pipeline.queries:
        return []
    catalog_of(config, None)
    for name in config.pipeline.queries:
        live_query(config, name)
    if not config.pipeline.queries:
        return []
    if importlib.util.find_spec("pyspark") is None:
        return ["the SQL of pipeline.queries was not checked, because pyspark is not installed"]
    arguments = [sys.executable, "-m", __name__, str(path or ""), config.server.data_dir]
    try:
        done = subprocess.run(arguments, capture_output=True, timeout=PATIENCE, check=False)
        answer = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return [f"the SQL of pipeline.queries was not checked, because Spark did not answer within {PATIENCE} seconds"]
    except (ValueError, IndexError):
        return ["the SQL of pipeline.queries was not checked, because Spark did not start"]
    if "wrong" in answer:
        raise BadOption(answer["wrong"])
    return list(answer["warnings"])


def check_sql(config: Config) -> list[str]:
    """The same with Spark in this process, of the queries alone."""
    from penstock.pipeline.commands import spark_options
    from penstock.pipeline.session import close_session, open_session
    from penstock.pipeline.streaming_sql import empty

    data_dir = Path(config.server.data_dir).resolve()
    has_data = (data_dir / "journal").is_dir()
    catalog = catalog_of(config, data_dir if has_data else None)
    # What SQL means, and what a stream may do, depends on some of them.
    settings = {name: value for name, value in spark_options(config).items() if name.startswith("spark.sql.")}
    warnings = []
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as cache:
        spark = open_session("penstock config check", Path(cache), quick=True, memory="512m", settings=settings)
        try:
            for name in config.pipeline.queries:
                query = live_query(config, name)
                try:
                    target = query.target(Place(data_dir, "http://127.0.0.1"))
                    checked(spark, query, catalog, target, empty(spark, query.section.watermark))
                except BadQuery:
                    raise
                except BadOption as error:
                    # Columns that are inferred are not known before there is a journal.
                    if has_data or not any(table.inferred for table in catalog.tables()):
                        raise
                    warnings.append(f"{error} (there is no journal yet, so not all columns are known)")
        finally:
            close_session(spark)
    return warnings


def main(path: str, data_dir: str) -> None:
    """The answer is the last line on standard output."""
    config = load(Path(path) if path else None, {"server.data_dir": data_dir}).config
    try:
        answer: dict[str, object] = {"warnings": check_sql(config)}
    except BadOption as error:
        answer = {"wrong": str(error)}
    except Exception as error:
        reason = str(error) if isinstance(error, PipelineError) else explain(error)
        answer = {"warnings": [f"the SQL of pipeline.queries was not checked: {reason}"]}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
