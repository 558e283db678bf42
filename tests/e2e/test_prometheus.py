"""The files in monitoring/ against a real server and a real Prometheus: names, rules, and what is answered."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.client import connect
from penstock.monitor.figures import WORKER, Family, Kind
from tests.services.test_figures import LABELS
from tests.services.test_operations import families, families_between_processes
from tests.support.process import ServerProcess
from tests.support.prometheus import Prometheus, program

FOLDER = Path(__file__).parents[2] / "monitoring"
ALERTS = FOLDER / "alerts.yml"
DASHBOARD = json.loads((FOLDER / "grafana.json").read_text("utf-8"))

# What Prometheus itself adds; and what a hub adds to its figures and those of its edges.
ITS_NAMES = {"up"}
ITS_LABELS = {"instance", "job", "le", WORKER}

# What a family is called when it is scraped.
SUFFIXES = {Kind.COUNTER: ("_total",), Kind.INFO: ("_info",), Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}

PAIR = re.compile(r'(\w+) *(?:=|!=|=~|!~) *"')
GROUPS = re.compile(r"\bby \(([^)]*)\)")


class AlertRule(NamedTuple):
    """The parts of a rule that the server has a say in; promtool knows the others."""

    name: str
    expression: str
    summary: str


RULE = re.compile(r'- alert: (\w+)\n +expr: (.+)\n(?: +for: .+\n)? +labels: .+\n +annotations:\n +summary: "(.+)"\n')


def alert_rules() -> list[AlertRule]:
    text = ALERTS.read_text("utf-8")
    found = [AlertRule(*parts) for parts in RULE.findall(text)]
    assert len(found) == text.count("- alert:")
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def graphs() -> Iterator[str]:
    """Expressions of the dashboard, as Grafana sends them for all servers."""
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]]
    expressions += [each["expr"] for each in DASHBOARD["annotations"]["list"]]
    for expression in expressions:
        yield expression.replace("$instance", ".*").replace("$__rate_interval", "10s")


def expressions() -> list[str]:
    return [*graphs(), *[rule.expression for rule in alert_rules()]]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Family]:
    """All families of a server with everything that it can have, and of a hub and its edges."""

    async def found() -> dict[str, Family]:
        directory = tmp_path_factory.mktemp("families")
        return await families(directory) | await families_between_processes(directory)

    return asyncio.run(found())


def test_dashboard_and_rules_use_figures_and_labels_that_the_server_has(exposed: dict[str, Family]) -> None:
    names = {family.name + suffix for family in exposed.values() for suffix in SUFFIXES.get(family.kind, ("",))}
    for expression in expressions():
        used = set(re.findall(r"\bpenstock_\w+|\bup\b", expression))
        assert used, expression
        assert used - names - ITS_NAMES == set(), expression
        labels = set(PAIR.findall(expression))
        labels |= {name.strip() for group in GROUPS.findall(expression) for name in group.split(",")}
        assert labels - LABELS - ITS_LABELS == set(), expression
    [servers] = [each for each in DASHBOARD["templating"]["list"] if each["name"] == "instance"]
    [name] = re.findall(r"penstock_\w+", servers["query"]["query"])
    assert name in names


def test_texts_use_labels_that_the_server_has() -> None:
    legends = [target["legendFormat"] for panel in panels() for target in panel["targets"]]
    used = {name for legend in legends for name in re.findall(r"{{(\w+)}}", legend)}
    summaries = [rule.summary for rule in alert_rules()]
    used |= {name for summary in summaries for name in re.findall(r"\$labels\.(\w+)", summary)}
    assert used - LABELS - ITS_LABELS == set()


def test_panels_do_not_cover_one_another_and_have_numbers_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & taken, panel["title"]
        taken |= own
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert {panel["datasource"]["uid"] for panel in panels()} == {"${datasource}"}


@pytest.mark.parametrize(
    "arguments", [("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml"), ("test", "rules")]
)
def test_promtool_finds_nothing_wrong(arguments: tuple[str, ...]) -> None:
    if arguments == ("test", "rules"):
        arguments = (*arguments, "alerts_test.yml")
    done = subprocess.run(
        [program("promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_every_alert_is_shown_to_fire() -> None:
    tests = (FOLDER / "alerts_test.yml").read_text("utf-8")
    missing = [
        rule.name for rule in alert_rules() if f'ALERTS{{alertname="{rule.name}", alertstate="firing"' not in tests
    ]
    assert missing == []


def test_the_page_says_of_every_alert_what_to_do() -> None:
    page = (FOLDER.parent / "docs" / "operations.md").read_text("utf-8")
    assert re.findall(r"(?m)^\| `(Penstock\w+)` \|", page) == [rule.name for rule in alert_rules()]


def configured(directory: Path, target: str, interval: str) -> Path:
    """The configuration of the repository, for this server and in more of a hurry."""
    text = (FOLDER / "prometheus.yml").read_text("utf-8")
    text = text.replace("127.0.0.1:8081", target).replace("15s", interval).replace("alerts.yml", str(ALERTS))
    path = directory / "prometheus.yml"
    path.write_text(text)
    return path


async def watch_stocks(url: str, updates: int) -> None:
    async with connect(url, adapter_set="WELCOME") as client:
        stocks = client.subscribe([f"item{number}" for number in range(1, 11)], ["last_price"], data_adapter="STOCKS")
        async for _ in stocks:
            updates -= 1
            if updates < 0:
                return


@pytest.mark.parametrize(
    ("scrapes", "interval"), [(5, "200ms"), pytest.param(60, "1s", marks=pytest.mark.prometheus_long)]
)
@pytest.mark.timeout(300)
def test_a_real_prometheus_scrapes_a_server_and_answers(tmp_path: Path, scrapes: int, interval: str) -> None:
    server = ServerProcess(tmp_path, {"demo.pace": 3.0})
    with ExitStack() as stack:
        stack.enter_context(server)
        configuration = configured(tmp_path, f"127.0.0.1:{server.api_port}", interval)
        prometheus = stack.enter_context(Prometheus(tmp_path, configuration))
        asyncio.run(watch_stocks(server.url, 20))
        for count in range(1, scrapes + 1):
            prometheus.wait_for(f'count_over_time(up{{job="penstock"}}[5m]) >= {count}')
        assert prometheus.query("min_over_time(up[5m])") == prometheus.query("max_over_time(up[5m])")
        [target] = prometheus.get("targets", state="active")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        # What a client has got is counted, and scraped.
        [(labels, sent)] = prometheus.wait_for("penstock_updates_sent_total >= 20")
        assert labels["instance"] == f"127.0.0.1:{server.api_port}"
        [(_, events)] = prometheus.query("penstock_events_received_total")
        assert events > 0
        assert sent >= 20
        [(_, lag)] = prometheus.query("histogram_quantile(0.99, rate(penstock_loop_lag_seconds_bucket[1m]))")
        assert 0 <= lag < 10
        assert [labels["version"] for labels, _ in prometheus.query("penstock_build_info")]
        for expression in expressions():
            prometheus.query(expression)
        # All scrapes of the same target: names and labels stay the same, nothing is exposed twice.
        assert prometheus.query("scrape_samples_scraped > 50")
        assert "duplicate" not in prometheus.log
        assert "out of order" not in prometheus.log
        [group] = prometheus.get("rules")["groups"]
        assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}
        assert [rule["lastError"] for rule in group["rules"] if rule.get("lastError")] == []
        firing = {rule["name"] for rule in group["rules"] if rule["state"] == "firing"}
        assert firing & {"PenstockDown", "PenstockJournalFailed", "PenstockFiguresIncomplete"} == set()
        server.stop()
        prometheus.wait_for('ALERTS{alertname="PenstockDown", alertstate="pending"}')
