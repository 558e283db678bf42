"""Hubs whose configuration changes while they stand by: the one that takes over serves what it says by then."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.cluster_nodes import INGEST_TOKEN, ClusterNode, ClusterOfNodes
from tests.support.raw import Socket
from tests.support.waiting import wait_until
from tests.support.worker_processes import subscribe

pytestmark = pytest.mark.timeout(300)

# As TEST has.
MORE = f"""
[adapters.MORE.data.HAND]
adapter = "ingest"
parameters = {{ items = ["*"], tokens = ["{INGEST_TOKEN}"] }}
"""

SHORT_LEASE = 3_000


def configuration(directory: Path, node: str) -> Path:
    return directory / f"{node}.toml"


def has(node: ClusterNode, line: str, times: int = 1) -> None:
    wait_until(lambda: node.log.count(line) >= times, f"{line!r} at {node.name}; {node.log[-3000:]}")


def serve_more(cluster: ClusterOfNodes) -> Socket:
    """The active hub has it by a reload; a client of it."""
    cluster["h1"].send(signal.SIGHUP)
    has(cluster["e1"], "adapter set served adapter_set=MORE")
    return cluster["e1"].client("MORE")


def goes_on(cluster: ClusterOfNodes, client: Socket) -> None:
    """The hub that has become active serves the set of this client."""
    has(cluster["e1"], "connected to the hub", 2)
    assert subscribe(client, "gold", "last", data_adapter="HAND")[-1].startswith("SUBOK")
    assert "no longer served" not in cluster["e1"].log


def test_a_standby_takes_over_with_what_has_been_added_since_its_start(tmp_path: Path) -> None:
    with ClusterOfNodes(tmp_path, edges=["e1"], lease_millis=SHORT_LEASE) as cluster:
        for hub in ("h1", "h2"):
            file = configuration(tmp_path, hub)
            file.write_text(file.read_text() + MORE)
        client = serve_more(cluster)
        cluster["h1"].end(signal.SIGKILL)
        cluster["h2"].wait_until_ready()
        goes_on(cluster, client)


def test_a_standby_that_is_told_to_reload_goes_on_in_a_new_log_and_says_what_is_wrong(tmp_path: Path) -> None:
    old, new = tmp_path / "h2.old", tmp_path / "h2.out"
    nodes = ClusterOfNodes(tmp_path, edges=[], lease_millis=SHORT_LEASE)
    file = configuration(tmp_path, "h2")
    valid = f'log.file = "{new}"\nlog.stderr = true\n{file.read_text()}'
    file.write_text(valid)
    with nodes as cluster:
        new.rename(old)
        file.write_text(valid + MORE.replace('"ingest"', '"nothing:Here"'))
        cluster["h2"].send(signal.SIGHUP)
        wait_until(lambda: new.exists() and "new configuration rejected" in new.read_text(), "the rejection")
        assert 'adapters.MORE.data.HAND.adapter = \\"nothing:Here\\"' in new.read_text()
        new.rename(old)
        file.write_text(valid.replace('cluster.role = "hub"', 'cluster.role = "both"') + MORE)
        cluster["h2"].send(signal.SIGHUP)
        wait_until(lambda: new.exists() and "configuration read" in new.read_text(), "the new configuration")
        (fixed,) = [line for line in new.read_text().splitlines() if "changes need a restart" in line]
        assert "cluster.role" in fixed
        # As if it had been asked for at the moment of the takeover: it is not read twice.
        cluster["h1"].end(signal.SIGTERM)
        cluster["h2"].wait_until_ready()
        assert not cluster["h2"].has_clients
        assert "configuration reloaded" not in new.read_text()


def test_a_hub_that_is_active_again_has_what_a_reload_has_added_although_its_file_is_broken_by_now(
    tmp_path: Path,
) -> None:
    with ClusterOfNodes(tmp_path, edges=["e1"], lease_millis=SHORT_LEASE) as cluster:
        for hub in ("h1", "h2"):
            file = configuration(tmp_path, hub)
            file.write_text(file.read_text() + MORE)
        client = serve_more(cluster)
        cluster["h1"].send(signal.SIGSTOP)
        cluster["h2"].wait_until_ready()
        cluster["h1"].send(signal.SIGCONT)
        has(cluster["h1"], "this hub stands by again")
        configuration(tmp_path, "h1").write_text("[adapters")
        cluster["h2"].end(signal.SIGTERM)
        cluster["h1"].wait_until_ready(2)
        has(cluster["e1"], "connected to the hub", 3)
        goes_on(cluster, client)
        assert cluster["h1"].log.count("configuration rejected, the last valid one is used") == 1
