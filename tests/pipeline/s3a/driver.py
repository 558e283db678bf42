"""What `test_object_files` asks of Java, in a process of its own with the connector on its class path.

driver.py PORT FOLDER CACHE: prints a JSON object with what became of each file. PORT is that of the object store.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from penstock.pipeline.session import OBJECT_FILES, close_session, open_session
from tests.pipeline.s3a.connector import JARS
from tests.support.object_store import ObjectStore


def main(port: int, folder: str, cache: Path) -> None:
    store = ObjectStore()
    store.port = port
    settings = {
        "spark.driver.extraClassPath": f"{JARS}/*",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        # A request that fails is tried again, soon.
        "spark.hadoop.fs.s3a.retry.interval": "50ms",
    }
    spark = open_session("files", cache, quick=True, settings=settings, checkpoints=folder)
    java: Any = spark._jvm
    configuration = spark._jsc.hadoopConfiguration()
    of_spark = java.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

    def path(name: str) -> Any:
        return java.org.apache.hadoop.fs.Path(f"{folder}/{name}")

    configuration.set("spark.sql.streaming.checkpointFileManagerClass", OBJECT_FILES)
    files = of_spark.create(path(""), configuration)
    files.mkdirs(path(""))

    def begin(name: str, text: str, overwrite: bool = False) -> Any:
        stream = files.createAtomic(path(name), overwrite)
        stream.write(text.encode())
        return stream

    def end(stream: Any) -> str:
        try:
            stream.close()
        except Py4JJavaError as error:
            return str(error.java_exception.getClass().getName())
        return "done"

    def content(name: str) -> str:
        stream = files.open(path(name))
        read = bytes(stream.readNBytes(100)).decode()
        stream.close()
        return read

    found: dict[str, Any] = {}
    # Two drivers that begin before either is done: neither sees a file of the other when it looks.
    first, second = begin("offsets", "of the first"), begin("offsets", "of the second")
    found["two"] = [end(second), end(first), content("offsets")]
    found["again"] = [end(begin("offsets", "later")), content("offsets")]
    for how in ("lost", "503"):
        store.fail("PUT", how, path=f"/{how}")
        found[how] = [end(begin(how, "once")), content(how), store.failures]
    # Nothing is there before the last byte, and nothing of one that was given up.
    left = begin("left", "half")
    seen = files.exists(path("left"))
    left.cancel()
    left.close()
    found["left"] = [seen, files.exists(path("left"))]
    found["state"] = [end(begin("state", text, overwrite=True)) for text in ("1", "2")] + [content("state")]
    found["names"] = sorted(status.getPath().getName() for status in files.list(path("")))
    print(json.dumps(found))
    close_session(spark)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
