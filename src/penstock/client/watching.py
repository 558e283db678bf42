"""The command `penstock watch`: live values of items in a terminal, as a table that changes or a line for each update.

Not here: the connection (`connection`). Read next: docs/clients.md.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from penstock.terminal import complaint

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from penstock.client import ItemUpdate, Subscription

FAILED = 1
WRONG = 2

MODES = ("MERGE", "DISTINCT", "COMMAND", "RAW")

# What the command stands on is imported inside it: no other command shall wait for it.


def watch(
    adapter_set: Annotated[str, typer.Argument(metavar="SET", help="The adapter set.")],
    items: Annotated[list[str], typer.Argument(metavar="ITEM…", help="The items.")],
    fields: Annotated[str, typer.Option("--fields", metavar="NAMES", help="The fields, with spaces between them.")],
    adapter: Annotated[str | None, typer.Option("--adapter", metavar="NAME", help="The data adapter.")] = None,
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help=f"{', '.join(MODES)}.")] = "MERGE",
    url: Annotated[str, typer.Option("--url", metavar="URL", help="The streaming port.")] = "http://127.0.0.1:8080",
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Who is watching.")] = None,
    # Not as a plain option only: what is on a command line everybody on the machine can see.
    password: Annotated[
        str | None, typer.Option("--password", envvar="PENSTOCK_PASSWORD", metavar="TEXT", help="The user's password.")
    ] = None,
    max_frequency: Annotated[
        float | None, typer.Option("--max-frequency", metavar="N", help="At most so many updates a second of an item.")
    ] = None,
    snapshot: Annotated[bool, typer.Option("--snapshot/--no-snapshot", help="Begin with what is known.")] = True,
    count: Annotated[int | None, typer.Option("--count", metavar="N", help="Leave after so many updates.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an object a line.")] = False,
) -> None:
    """Watch items live. On a terminal a table of their values, otherwise a line for each update."""
    import asyncio

    from penstock.client import ClientError, connect
    from penstock.client.errors import Refused
    from penstock.client.subscription import names

    if mode.upper() not in MODES:
        raise complaint(f"--mode is {mode!r}; it must be one of {', '.join(MODES)}", WRONG)
    try:
        columns = names(fields)
        wanted = names(items)
    except ValueError as error:
        raise complaint(str(error), WRONG) from None

    async def run() -> None:
        view = _view(wanted, columns, mode.upper(), as_json)
        async with connect(url, adapter_set=adapter_set, user=user, password=password) as client:
            subscription = client.subscribe(
                wanted,
                columns,
                mode=mode.upper(),
                data_adapter=adapter,
                # A mode without a state has no snapshot to ask for.
                snapshot=snapshot and mode.upper() != "RAW",
                max_frequency=max_frequency,
            )
            await _show(subscription, view, count)

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # Whoever read has enough. Python would complain once more when it closes what it writes to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Refused as refusal:
        # Servers do not repeat what was asked for.
        raise complaint(f"{url}: {adapter_set}/{adapter or 'DEFAULT'}: {refusal}", FAILED) from None
    except (ClientError, OSError) as error:
        raise complaint(f"{url}: {error}", FAILED) from None


class View(Protocol):
    """Where updates are seen."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> object: ...
    def take(self, update: ItemUpdate) -> None: ...


async def _show(subscription: Subscription, view: View, count: int | None) -> None:
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


def _view(items: tuple[str, ...], fields: tuple[str, ...], mode: str, as_json: bool) -> View:
    # One row for each item is all there is to see only where values replace each other.
    if mode == "MERGE" and sys.stdout.isatty() and not as_json:
        return Table(items, fields)
    return Lines(as_json, ROW if mode == "COMMAND" else ())


# Which row of a table an update is about, and what becomes of it.
ROW = "key", "command"


class Lines:
    """An update a line: when, which item, and what has changed; of a snapshot, everything; some fields in any case."""

    def __init__(self, as_json: bool, always: tuple[str, ...] = ()) -> None:
        self._as_json = as_json
        self._always = always

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def take(self, update: ItemUpdate) -> None:
        now = datetime.now().astimezone()
        fields = {
            name: value for name, value in update.values.items() if name in update.changed or name in self._always
        }
        if self._as_json:
            time = now.isoformat(timespec="milliseconds")
            written = {"time": time, "item": update.item, "snapshot": update.is_snapshot, "fields": fields}
            print(json.dumps(written, ensure_ascii=False), flush=True)
            return
        changes = "  ".join(f"{name}={_plain(value)}" for name, value in fields.items())
        print(f"{now:%H:%M:%S.%f}"[:-3], update.item, changes, sep="  ", flush=True)


class Table:
    """A row for each item, always as it is now."""

    def __init__(self, items: tuple[str, ...], fields: tuple[str, ...]) -> None:
        from rich.live import Live

        self._fields = fields
        self._rows: dict[str, tuple[str | None, ...]] = dict.fromkeys(items, (None,) * len(fields))
        self._live = Live(get_renderable=self._table, refresh_per_second=10)

    def __enter__(self) -> Table:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def take(self, update: ItemUpdate) -> None:
        self._rows[update.item] = tuple(update.values[name] for name in self._fields)

    def _table(self) -> Grid:
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid("item", *self._fields, box=None)
        for item, values in self._rows.items():
            # As text: what looks like markup is data.
            grid.add_row(Text(item), *(Text(_plain(value)) for value in values))
        return grid


def _plain(value: str | None) -> str:
    """For a terminal: nothing in it may move the cursor or break the line."""
    if value is None:
        return "-"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in value)
