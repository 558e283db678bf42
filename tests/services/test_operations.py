"""docs/operations.md against the server: every figure and every statistic is in its tables, as the code describes it.

`python -m tests.services.test_operations` writes the tables.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from penstock.cluster.local import LocalHub
from penstock.cluster.nats import NatsEdge
from penstock.config import load
from penstock.monitor.exposition import SUFFIXES
from penstock.monitor.figures import Family, merged
from penstock.monitor.statistics import FIELDS, MEANINGS
from penstock.server import Server
from penstock.services.cluster.edge import EdgeServer
from penstock.services.cluster.hub import HubPart
from tests.services.test_figures import Site

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"

# Of families that have no sample until there is something to count.
LABELS = {
    "penstock_connection_inbound": ("connection",),
    "penstock_connection_inbound_failed": ("connection",),
    "penstock_connection_inbound_repeated": ("connection",),
    "penstock_connection_outbound": ("connection",),
    "penstock_connection_outbound_failed": ("connection",),
    "penstock_connection_up": ("connection",),
    "penstock_outlet_events": ("outlet",),
    "penstock_outlet_lag_events": ("outlet",),
    "penstock_outlet_up": ("outlet",),
    "penstock_requests": ("port", "kind"),
    "penstock_sessions_by_adapter_set": ("adapter_set",),
    "penstock_sessions_by_library": ("library",),
    "penstock_sessions_by_transport": ("transport",),
    "penstock_tlex_sessions": ("type",),
}


async def families(directory: Path) -> dict[str, Family]:
    """Of a server with everything that it can have."""
    site = Site(directory)
    await site.server.start()
    try:
        return site.families()
    finally:
        await site.server.stop()


async def families_between_processes(directory: Path) -> dict[str, Family]:
    """Those that only a hub or an edge has, over either fabric."""
    config = load(None, {}).config
    hub = Server(config, [], hub=HubPart(LocalHub(directory), 1)).hub
    assert hub is not None
    edge = EdgeServer(config, "edge", NatsEdge(config.cluster, "edge", "run"), directory)
    alone = {family.name for service in Server(config, []).services for family in service.figures()}
    found = merged([*hub.figures(), *[family for service in edge.services for family in service.figures()]])
    return {family.name: family for family in found if family.name not in alone}


def figures_table(found: dict[str, Family]) -> str:
    rows = ["| figure | kind | labels | meaning |", "|---|---|---|---|"]
    for family in sorted(found.values()):
        labels = LABELS.get(family.name) or tuple([name for name, _ in next(iter(family.samples), (0, ()))[1]])
        shown = ", ".join([f"`{label}`" for label in labels])
        name = family.name + SUFFIXES.get(family.kind, "")
        rows.append(f"| `{name}` | {family.kind.value} | {shown} | {family.help} |")
    return "\n".join(rows)


def statistics_table() -> str:
    rows = [f"| `{field}` | {MEANINGS[field]} |" for field in FIELDS]
    return "\n".join(["| field | meaning |", "|---|---|", *rows])


async def tables(directory: Path) -> dict[str, str]:
    return {
        "figures": figures_table(await families(directory)),
        "figures of several processes": figures_table(await families_between_processes(directory)),
        "statistics": statistics_table(),
    }


def with_tables(page: str, tables: dict[str, str]) -> str:
    for name, table in tables.items():
        before, begin, rest = page.partition(f"<!-- {name}: generated")
        note, _, rest = rest.partition("\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        page = f"{before}{begin}{note}\n\n{table}\n\n{end}{after}"
    return page


def test_the_tables_of_figures_and_statistics_are_those_of_the_code(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    assert page == with_tables(page, asyncio.run(tables(tmp_path)))


def test_the_commands_of_the_page_show_what_it_says(tmp_path: Path) -> None:
    commands = re.findall(r"(?m)^curl .*$", PAGE.read_text("utf-8"))
    assert len(commands) == 4

    async def main() -> list[str]:
        site = Site(tmp_path)
        await site.server.start()
        try:
            answers = []
            for command in commands:
                here = shlex.split(command.replace(":8081/", f":{site.server.api_port}/"))
                done = await asyncio.to_thread(
                    subprocess.run, [*here, "--silent", "--fail"], capture_output=True, timeout=20, check=True
                )
                answers.append(done.stdout.decode())
            return answers
        finally:
            await site.server.stop()

    health, ready, plain, open_metrics = asyncio.run(main())
    assert json.loads(health) == {"status": "live"}
    assert json.loads(ready)["status"] in ("ready", "degraded")
    assert "# TYPE penstock_events_received_total counter\n" in plain
    assert "# TYPE penstock_events_received counter\n" in open_metrics


def test_prometheus_takes_the_configuration_of_the_page(tmp_path: Path) -> None:
    [content] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    (tmp_path / "prometheus.yml").write_text(content)
    promtool = shutil.which("promtool")
    assert promtool is not None, "make system-setup installs it"
    subprocess.run([promtool, "check", "config", str(tmp_path / "prometheus.yml")], check=True, timeout=30)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(with_tables(PAGE.read_text("utf-8"), asyncio.run(tables(Path(made)))), "utf-8")
