"""The command `penstock watch`: live values of items in a terminal, as a table that changes or a line for each update.

Not here: the connection (`connection`), what is shown (`views`). Read next: docs/clients.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.client.following import check_text, follow
from penstock.client.options import STREAM_PORT, Authorities, Password, StreamUrl, UserName
from penstock.terminal import WRONG, complaint

if TYPE_CHECKING:
    from penstock.client import Subscription
    from penstock.client.views import UpdateView

MODES = ("MERGE", "DISTINCT", "COMMAND", "RAW")

# Imports are inside the command, so that no other command has to wait for them.


def watch(
    adapter_set: Annotated[str, typer.Argument(metavar="SET", help="The adapter set.")],
    items: Annotated[list[str], typer.Argument(metavar="ITEM…", help="The items.")],
    fields: Annotated[str, typer.Option("--fields", metavar="NAMES", help="The fields, separated by spaces.")],
    adapter: Annotated[str | None, typer.Option("--adapter", metavar="NAME", help="The data adapter.")] = None,
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help=f"{', '.join(MODES)}.")] = "MERGE",
    url: StreamUrl = STREAM_PORT,
    ca: Authorities = None,
    user: UserName = None,
    password: Password = None,
    max_frequency: Annotated[
        float | None,
        typer.Option("--max-frequency", metavar="N", help="Maximum number of updates per second of each item."),
    ] = None,
    snapshot: Annotated[bool, typer.Option("--snapshot/--no-snapshot", help="Begin with the current values.")] = True,
    count: Annotated[int | None, typer.Option("--count", metavar="N", help="Exit after this many updates.")] = None,
    all_fields: Annotated[
        bool, typer.Option("--all-fields", help="In lines and JSON: all fields, not only those that have changed.")
    ] = False,
    sparkline: Annotated[
        str | None,
        typer.Option("--sparkline", metavar="FIELD", help="In the table: the last values of a field as bars."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Watch items live. On a terminal a table of their values, otherwise a line for each update.

    Exit codes: 0 left as asked or by Ctrl-C, 1 refused by the server, 2 wrong options, 3 no connection to a server.
    """
    from penstock.client import connect
    from penstock.client.trust import trusting
    from penstock.client.views import choose

    try:
        wanted, columns = chosen_names("ITEM", items), chosen_names("--fields", fields)
        mode = chosen_mode(mode)
        if max_frequency is not None and not 0 < max_frequency < math.inf:
            raise ValueError(f"--max-frequency is {max_frequency:g}; expected a number above 0")
        if count is not None and count < 1:
            raise ValueError(f"--count is {count}; expected 1 or more")
        for name, text in (("SET", adapter_set), ("--adapter", adapter), ("--user", user), ("--password", password)):
            check_text(name, text)
        if sparkline is not None and sparkline not in columns:
            raise ValueError(f"--sparkline is {sparkline!r}; expected one of the fields {', '.join(columns)}")
        view = choose(wanted, columns, mode, as_json, all_fields, sparkline)
        context = None if ca is None else trusting(ca)
        client = connect(
            url, adapter_set=adapter_set, user=user, password=password, tls=context, on_status=view.take_status
        )
    except ValueError as error:
        raise complaint(str(error), WRONG) from None

    async def run() -> None:
        async with client:
            subscription = client.subscribe(
                wanted,
                columns,
                mode=mode,
                data_adapter=adapter,
                # A mode without a state has no snapshot to ask for.
                snapshot=snapshot and mode != "RAW",
                max_frequency=max_frequency,
            )
            await _show(subscription, view, count)

    follow(url, f"{adapter_set}/{adapter or 'DEFAULT'}", run)


def chosen_names(option: str, given: list[str] | str) -> tuple[str, ...]:
    from penstock.client.subscription import names

    try:
        found = names(given)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    for name in found:
        check_text(option, name)
    return found


def chosen_mode(given: str) -> str:
    if given.upper() not in MODES:
        raise ValueError(f"--mode is {given!r}; it must be one of {', '.join(MODES)}")
    return given.upper()


async def _show(subscription: Subscription, view: UpdateView, count: int | None) -> None:
    lost = shown = 0
    with view:
        async for update in subscription:
            view.take(update)
            if subscription.lost > lost:
                lost = subscription.lost
                typer.echo(f"penstock: {lost} updates were lost so far", err=True)
            shown += 1
            if shown == count:
                return
