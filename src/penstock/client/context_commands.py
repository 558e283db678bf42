"""The commands `penstock context …`: add, list, use and remove servers that other commands are about.

Where they are kept is in `contexts`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.client.contexts import ContextError, Contexts, ServerContext, check, place, read, write
from penstock.client.options import Authorities
from penstock.terminal import WRONG, complaint

app = typer.Typer(help="Servers that you ask often, under names.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.")]


@contextmanager
def _one_line_on_error() -> Iterator[None]:
    try:
        yield
    except ContextError as error:
        raise complaint(str(error), WRONG) from None


@app.command("add")
def add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="The streaming port, such as https://push.example.com.")],
    api: Annotated[str, typer.Option("--api", metavar="URL", help="The API port.")] = "",
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="The user's name.")] = "",
    ca: Authorities = None,
    # Not as a value on the command line, which everybody on the machine can see.
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the user's password from standard input.")
    ] = False,
) -> None:
    """Add a server, or replace the one of this name. The first one is used at once."""
    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else ""
    authorities = "" if ca is None else str(Path(ca).absolute())
    server = ServerContext(url, api, user, authorities, password)
    with _one_line_on_error():
        check(name, server)
        known = read(place())
        write(place(), Contexts({**known.servers, name: server}, known.used or name))
    typer.echo(f"penstock: context {name}: {url}")


@app.command("list")
def show() -> None:
    """List them; the one that is used has a star. Passwords are not shown."""
    with _one_line_on_error():
        known = read(place())
    for name, server in known.servers.items():
        details = [server.url, *(f"{key}={value}" for key in ("api", "user", "ca") if (value := getattr(server, key)))]
        typer.echo(f"{'*' if name == known.used else ' '} {name}  {'  '.join(details)}")


@app.command("use")
def use(name: Name) -> None:
    """Use a server from now on."""
    with _one_line_on_error():
        known = read(place())
        known.named(name)
        write(place(), Contexts(known.servers, name))


@app.command("remove")
def remove(name: Name) -> None:
    """Forget a server, and its password."""
    with _one_line_on_error():
        known = read(place())
        known.named(name)
        rest = {key: value for key, value in known.servers.items() if key != name}
        write(place(), Contexts(rest, "" if known.used == name else known.used))
