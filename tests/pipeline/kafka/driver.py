"""The example of docs/pipeline.md in a process of its own: from a topic to live items, from the journal to a topic.

driver.py BROKER API JOURNAL COUNT, in a folder with token.txt: prints what the topic `journal` has in the end.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pyspark.sql import functions as fn

from penstock.pipeline.publish import publish_stream
from penstock.pipeline.session import close_session, open_session
from tests.support.kafka_broker import ROOT, jars

EXAMPLE = re.compile(r"^## Kafka\n.*?^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def example(broker: str, api: str, journal: str) -> str:
    """The code of the page with addresses and names of this place; each of them is there."""
    found = EXAMPLE.search((ROOT / "docs" / "pipeline.md").read_text())
    assert found is not None
    code = found[1]
    for written, here in {
        "broker:9092": broker,
        "http://127.0.0.1:8081": api,
        "penstock-data/journal": journal,
        'adapter_set="MARKET"': 'adapter_set="SET"',
        'adapter="TRADES"': 'adapter="OUT"',
        "trade.{symbol}": "m.{symbol}",
    }.items():
        assert code.count(written) == 1, written
        code = code.replace(written, here)
    return code


def main(broker: str, api: str, journal: str, count: int) -> None:
    connector = ",".join(str(jar) for jar in jars("connector"))
    # The session of the example is this one; its connector comes from a folder and not from the network.
    spark = open_session("kafka", Path.cwd() / "spark", quick=True, settings={"spark.jars": connector})
    brokers = {"kafka.bootstrap.servers": broker}

    def produce(first: int, after: int) -> None:
        trades = spark.range(first, after, numPartitions=1).selectExpr(
            "CAST(id % 7 AS STRING) AS key",
            "to_json(struct(concat('s', id % 7) AS symbol, CAST(id AS DOUBLE) AS price)) AS value",
        )
        trades.write.format("kafka").options(**brokers, topic="trades").save()

    # A topic is there from its first record on; the example takes in what comes after it.
    produce(0, 1)
    exec(
        example(broker, api, journal),
        {"fn": fn, "publish_stream": publish_stream, "Path": Path, "open_session": open_session},
    )
    queries = spark.streams.active
    for query in queries:
        query.processAllAvailable()
    produce(1, count + 1)
    # What the first publishes, the second finds in the journal.
    for query in [*queries, *queries]:
        query.processAllAvailable()
    topic = spark.read.format("kafka").options(**brokers, subscribe="journal").load()
    for row in topic.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value").collect():
        print(json.dumps([row.key, json.loads(row.value)]), flush=True)
    close_session(spark)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
