"""`penstock cluster …` as a person types it, against a server of one process and one of several."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.terminal import FAILED
from tests.services.admin.site import AdminSite
from tests.services.cluster.site import ClusterSite


def cluster(site: AdminSite, *arguments: str, password: str = "root-secret") -> Result:
    options = ["--api", f"http://127.0.0.1:{site.api_port}", "--user", "root"]
    return CliRunner(env={"PENSTOCK_ADMIN_PASSWORD": password}).invoke(app, ["cluster", *options, *arguments])


def test_a_server_of_one_process_is_one_line(tmp_path: Path) -> None:
    with AdminSite(tmp_path) as site, site.exchange.stream():
        result = cluster(site, "status")
        assert result.exit_code == 0, result.output
        head, row = result.stdout.splitlines()
        assert head.split()[:6] == ["name", "role", "state", "sessions", "items", "lag"]
        assert row.split()[1:4] == ["single", "up", "1"]
        found = json.loads(cluster(site, "status", "--json").stdout)
        assert (found["epoch"], found["nodes"][0]["role"]) == (None, "single")
        assert cluster(site, "status", password="wrong").exit_code == FAILED


def test_a_hub_and_its_edges_are_a_line_each(tmp_path: Path) -> None:
    with ClusterSite(tmp_path) as site, site.at("w2").stream():
        site.sample()
        rows = [line.split() for line in cluster(site, "status").stdout.splitlines()]
        assert [row[:4] for row in rows[1:4]] == [
            ["hub", "hub", "up", "0"],
            ["w1", "edge", "up", "0"],
            ["w2", "edge", "up", "1"],
        ]
        assert rows[2][6] == "ms"
        assert rows[4] == ["epoch", "1"]
