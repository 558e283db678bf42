"""The commands `penstock cluster …`: which processes and machines a running server is made of, and how they are.

They ask the administration of a running server, as `penstock admin …` does. Read next: docs/cluster.md.
"""

from __future__ import annotations

import time

import typer

from penstock.client.admin_commands import Json, ask, login, print_json, print_table

app = typer.Typer(
    help="Show the processes of a running server.", no_args_is_help=True, rich_markup_mode=None, callback=login
)


@app.command()
def status(context: typer.Context, as_json: Json = False) -> None:
    """List the hub and its edges, with their sessions, items and round-trip times."""
    found = ask(context, "GET", "/cluster")
    if as_json:
        print_json(found)
        return
    rows = [
        {
            **node,
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(node["since_ms"] / 1000)),
            "lag": None if node["lag_millis"] is None else f"{node['lag_millis']:.1f} ms",
        }
        for node in found["nodes"]
    ]
    print_table(rows, ("name", "role", "state", "sessions", "items", "lag", "since", "version", "node"))
    if found["epoch"] is not None:
        typer.echo(f"epoch {found['epoch']}")
