"""The commands `penstock connection …`: make connections of twins to brokers, and look at them.

They use the HTTP API of a running server, with the users of `penstock admin …`. Read next: docs/connections.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from penstock.client.admin_commands import Json, ask_below, login, print_json, print_table
from penstock.terminal import WRONG, complaint

BASE = "/api/2/connections"

Id = Annotated[str, typer.Argument(metavar="ID", help="The ID of the connection.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A file with the document of the connection, as JSON.")]

app = typer.Typer(
    help="Connections of twins to MQTT, Kafka, NATS and HTTP.",
    no_args_is_help=True,
    rich_markup_mode=None,
    callback=login,
)


def _ask(context: typer.Context, method: str, path: str, body: object = None, **query: object) -> Any:
    return ask_below(BASE, context, method, path, body, **query)


def _place(id: str, part: str = "") -> str:
    return f"/{quote(id, safe='')}{part}"


@app.command("list")
def list_all(context: typer.Context, as_json: Json = False) -> None:
    """List the connections, and whether they are open."""
    found = _ask(context, "GET", "")
    if as_json:
        print_json(found)
        return
    rows = []
    for each in found:
        status = _ask(context, "GET", _place(each["id"], "/status"))
        state, reason = status["liveStatus"], status.get("reason", "")
        rows.append({"id": each["id"], "type": each["connectionType"], "state": state, "reason": reason})
    print_table(rows, ("id", "type", "state", "reason"))


@app.command()
def show(context: typer.Context, id: Id) -> None:
    """Print the document of a connection as JSON, without its secrets."""
    print_json(_ask(context, "GET", _place(id)))


@app.command()
def put(context: typer.Context, id: Id, file: File) -> None:
    """Make or replace a connection."""
    _ask(context, "PUT", _place(id), _document(file))


@app.command()
def test(context: typer.Context, file: File) -> None:
    """Try whether the broker of a document can be reached; nothing is stored."""
    _ask(context, "POST", "", _document(file), **{"dry-run": "true"})


@app.command("open")
def open_it(context: typer.Context, id: Id) -> None:
    """Open a connection."""
    _ask(context, "POST", _place(id, "/command"), "connectivity.commands:openConnection")


@app.command()
def close(context: typer.Context, id: Id) -> None:
    """Close a connection; it stays stored."""
    _ask(context, "POST", _place(id, "/command"), "connectivity.commands:closeConnection")


@app.command()
def delete(context: typer.Context, id: Id) -> None:
    """Close and delete a connection."""
    _ask(context, "DELETE", _place(id))


@app.command()
def status(context: typer.Context, id: Id) -> None:
    """Print as JSON whether a connection is open, and why not."""
    print_json(_ask(context, "GET", _place(id, "/status")))


@app.command()
def metrics(context: typer.Context, id: Id) -> None:
    """Print as JSON what a connection has counted."""
    print_json(_ask(context, "GET", _place(id, "/metrics")))


@app.command()
def logs(context: typer.Context, id: Id, as_json: Json = False) -> None:
    """Print the last entries of a connection's log."""
    found = _ask(context, "GET", _place(id, "/logs"))
    if as_json:
        print_json(found)
        return
    columns = ("timestamp", "level", "category", "address", "message")
    print_table([{**dict.fromkeys(columns), **entry} for entry in found["connectionLogs"]], columns)


def _document(file: Path) -> object:
    try:
        return json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise complaint(f"{file}: {error.strerror}", WRONG) from None
    except ValueError as error:
        raise complaint(f"{file} is not JSON: {error}", WRONG) from None
