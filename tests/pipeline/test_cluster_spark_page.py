"""The files and commands of docs/cluster-spark.md, on a cluster whose processes do not see the server's directory."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.history.lake_url import LakeUrl
from penstock.history.reader import History
from penstock.pipeline.lake import Lake
from tests.history.world import rows, whole_lake
from tests.pipeline.cluster import SETTINGS, Cluster, apart
from tests.pipeline.world import held, some
from tests.support.command import PENSTOCK
from tests.support.journal_server import TOKEN, JournalServer
from tests.support.object_store import BUCKET, SECRET, ObjectStore

pytestmark = [pytest.mark.spark_long, pytest.mark.timeout(1_200)]

PAGE = (Path(__file__).parents[2] / "docs" / "cluster-spark.md").read_text()
EVENTS = 60_000


def block(name: str) -> str:
    found = re.search(rf"^```toml {re.escape(name)}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


def test_history_goes_to_the_object_store_and_the_server_reads_it_there(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    lake = LakeUrl(f"s3://{BUCKET}/penstock/lake", {"region": "us-east-1"})
    # Its workers have the environment of this process, as the page asks for.
    with Cluster(tmp_path / "cluster") as cluster:
        directory = cluster.hidden / "server"
        directory.mkdir()
        for place in (directory, tmp_path):
            (place / "reader-token.txt").write_text(f"{TOKEN}\n")
        server_toml = block("server.toml").replace("reader-token.txt", str(directory / "reader-token.txt"))
        with JournalServer(directory, server_toml, {"api.host": "127.0.0.1"}) as server:
            server.append(some(EVENTS), frame=5_000)
            settings = "".join(f'"{name}" = "{value}"\n' for name, value in SETTINGS.items())
            text = block("pipeline.toml").replace("https://push.example.com:8081", server.api)
            text = text.replace("spark://spark.example.com:7077", cluster.url)
            (tmp_path / "pipeline.toml").write_text(f"{text}\n[pipeline.spark]\n{settings}")
            command = "pipeline run history --config pipeline.toml --data-dir pipeline-data"
            assert f"\npenstock {command}\n" in PAGE
            for round_ in range(2):
                if round_:
                    server.append(some(1_000, first=EVENTS + 1), frame=1_000)
                done = subprocess.run(
                    [*apart(cluster.hidden), str(PENSTOCK), *command.split(), "--once"],
                    cwd=tmp_path,
                    env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=600,
                    check=False,
                )
                assert done.returncode == 0, done.stderr[-5_000:]
        events = rows(held(directory / "data" / "journal"))
        assert len(events) == EVENTS + 1_000
        assert whole_lake(Lake(lake)) == events
        # All of it from the lake, as the server has it when retention has passed.
        history = History(tmp_path / "no-journal", lake)
        assert list(history.events("item-2")) == [event for event in events if event.entity == "item-2"]
        for daemon in cluster.workers:
            said = daemon.log.read_text()
            assert SECRET not in said
            assert TOKEN not in said
