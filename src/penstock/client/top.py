"""The command `penstock top`: the figures of a running server, live in a terminal, or as text and JSON for scripts.

An ordinary client of the data adapter `monitor`. Not here: what is shown (`board`), and where (`board_views`). Read
next: docs/operations.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.client.following import check_text, follow
from penstock.client.options import STREAM_PORT, Authorities, Password, StreamUrl, UserName
from penstock.terminal import WRONG, complaint

if TYPE_CHECKING:
    from penstock.client.board_views import BoardView

# Seconds that `--once` waits for figures.
PATIENCE = 10.0

# Rows of each table, for scripts.
ROWS = 10

# Imports are inside the command, so that no other command has to wait for them.


def top(
    adapter_set: Annotated[str, typer.Argument(metavar="SET", help="The adapter set with the monitor adapter.")],
    adapter: Annotated[
        str, typer.Option("--adapter", metavar="NAME", help="The name of the monitor adapter in the set.")
    ] = "MONITOR",
    url: StreamUrl = STREAM_PORT,
    ca: Authorities = None,
    user: UserName = None,
    password: Password = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="ORDER", help="Sessions by slowest, bandwidth, updates, lost, items or newest."),
    ] = None,
    sort_items: Annotated[
        str | None, typer.Option("--sort-items", metavar="ORDER", help="Items by events, total or subscribers.")
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", help="Rows of each table, if the output is not a terminal.")
    ] = ROWS,
    once: Annotated[bool, typer.Option("--once", help="Print the figures once and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line, once a second.")] = False,
) -> None:
    """Show the figures of a running server: statistics, the slowest and busiest sessions, the hottest items.

    On a terminal, q leaves, s and i change the orders. Otherwise a page of text is printed each second.

    Exit codes: 0 left as asked or by Ctrl-C, 1 refused by the server, 2 wrong options, 3 no connection to a server.
    """
    import asyncio

    from penstock.client import ClientError, connect
    from penstock.client.board import ITEM_ORDERS, SESSION_ORDERS, FigureBoard
    from penstock.client.board_feed import BoardFeed
    from penstock.client.board_views import BoardPages, BoardScreen
    from penstock.client.trust import trusting

    target = f"{adapter_set}/{adapter}"
    try:
        for name, text in (("SET", adapter_set), ("--adapter", adapter), ("--user", user), ("--password", password)):
            check_text(name, text)
        if rows < 1:
            raise ValueError(f"--rows is {rows}; expected 1 or more")
        board = FigureBoard(_order("--sort", sort, SESSION_ORDERS), _order("--sort-items", sort_items, ITEM_ORDERS))
        title = f"{target} at {url}"
        view: BoardView
        if sys.stdout.isatty() and not once and not as_json:
            view = BoardScreen(board, title)
        else:
            view = BoardPages(board, title, as_json, once, rows)
        feed = BoardFeed(board, view)
        context = None if ca is None else trusting(ca)
        client = connect(
            url, adapter_set=adapter_set, user=user, password=password, tls=context, on_status=feed.take_status
        )
    except ValueError as error:
        raise complaint(str(error), WRONG) from None

    async def run() -> None:
        async with client:
            try:
                async with asyncio.timeout(PATIENCE if once else None):
                    await feed.run(client, adapter)
            except TimeoutError:
                raise ClientError(f"{target}: no figures within {PATIENCE:g} s; is it the adapter monitor?") from None

    follow(url, target, run)


def _order(option: str, given: str | None, known: Iterable[str]) -> str:
    """The first one if none is given."""
    names = list(known)
    if given is not None and given not in names:
        raise ValueError(f"{option} is {given!r}; it must be one of {', '.join(names)}")
    return given or names[0]
