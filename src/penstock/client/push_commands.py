"""The commands `penstock push …`: look at devices and push subscriptions, and try whether a device is reached.

They ask the administration of a running server, as `penstock admin …` does. Read next: docs/push.md.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from penstock.client.admin_commands import Entries, Json, Offset, ask, login, print_json, print_part, print_table
from penstock.terminal import FAILED, complaint

app = typer.Typer(
    help="Show devices and push subscriptions of a running server.",
    no_args_is_help=True,
    rich_markup_mode=None,
    callback=login,
)

Device = Annotated[str, typer.Argument(metavar="DEVICE", help="Id of the device, as `penstock push devices` shows it.")]


@app.command()
def applications(context: typer.Context, as_json: Json = False) -> None:
    """List the applications, with the public keys of sites, and those that are on hold."""
    found = ask(context, "GET", "/push/applications")
    if as_json:
        print_json(found)
    else:
        print_table(found, ("platform", "application", "held_back", "public_key"))


@app.command()
def devices(
    context: typer.Context,
    application: Annotated[
        str | None, typer.Option("--application", metavar="NAME", help="Only those of this application.")
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="Only those that are ACTIVE, or SUSPENDED.")
    ] = None,
    limit: Entries = 100,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List the devices."""
    found = ask(context, "GET", "/push/devices", application=application, status=status, limit=limit, offset=offset)
    columns = ("device", "platform", "application", "status", "subscriptions", "waiting", "badge")
    _show(found, "devices", columns, as_json)


@app.command()
def subscriptions(
    context: typer.Context,
    device: Annotated[str | None, typer.Option("--device", metavar="DEVICE", help="Only those of this device.")] = None,
    limit: Entries = 100,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List the push subscriptions."""
    found = ask(context, "GET", "/push/subscriptions", device=device, limit=limit, offset=offset)
    columns = ("subscription", "device", "status", "data_adapter", "group", "schema", "mode", "trigger")
    _show(found, "subscriptions", columns, as_json)


@app.command("send-test")
def send_test(
    context: typer.Context,
    device: Device,
    payload: Annotated[
        str | None,
        typer.Option(
            "--payload", metavar="JSON", help="JSON to send; by default a line of text in the format of its platform."
        ),
    ] = None,
) -> None:
    """Send a notification to a device at once, and print the answer of its provider."""
    body = {} if payload is None else {"payload": payload}
    found = ask(context, "POST", f"/push/devices/{quote(device, safe='')}/test", body)
    words = f"{found['verdict']}{': ' if found['reason'] else ''}{found['reason']}"
    if found["verdict"] != "accepted":
        raise complaint(f"the notification was not accepted: {words}", FAILED)
    typer.echo(f"penstock: device {device}: {words}")


def _show(found: dict[str, Any], name: str, columns: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_part(found, name, columns)
