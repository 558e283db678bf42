"""The average price of each stock in the last ten seconds, from the journal of the server, as live items.

python job.py [http://localhost:8081]
"""

import sys
from pathlib import Path

from pyspark.sql import functions as fn

from penstock.pipeline import publish_stream, run_until_stopped
from penstock.pipeline.session import open_session

server = (sys.argv[1:] or ["http://localhost:8081"])[0]
spark = open_session("averages", Path.cwd() / "spark")

trades = (
    spark.readStream.format("penstock")
    .option("entities", "WELCOME/STOCKS/*")
    .load("penstock-data/journal")
    .select(
        "timestamp",
        fn.element_at(fn.split("entity", "/"), -1).alias("stock"),
        fn.from_json("value", "last_price string").alias("trade"),
    )
)

averages = (
    trades.withWatermark("timestamp", "10 seconds")
    .groupBy("stock", fn.window("timestamp", "10 seconds"))
    .agg(fn.round(fn.avg(fn.col("trade.last_price").cast("double")), 3).alias("average"), fn.count("*").alias("trades"))
    .select("stock", fn.col("window.start").alias("since"), "average", "trades")
)

publish_stream(
    averages,
    server=server,
    adapter_set="AVERAGES",
    adapter="DEFAULT",
    token_file="token.txt",
    item_template="{stock}",
    mode="MERGE",
    order_by=["since"],
    checkpoint="checkpoint",
)
run_until_stopped(spark)
