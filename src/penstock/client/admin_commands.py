"""The commands `penstock admin …`: look into a running server and steer it, from a terminal or a script.

Not here: what the server makes of it (`penstock.services.admin`). Read next: docs/administration.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from penstock.client.options import Authorities
from penstock.terminal import FAILED, UNREACHABLE, WRONG, complaint, reader_left

if TYPE_CHECKING:
    from penstock.client.admin_api import AdminApi

DEFAULT_API = "http://127.0.0.1:8081"

NO_LIMIT = "unlimited"

Session = Annotated[str, typer.Argument(metavar="SESSION", help="Session, as lists and logs show it.")]
Number = Annotated[int, typer.Argument(metavar="N", help="The number of the subscription.", min=1)]
Limit = Annotated[str, typer.Argument(metavar="LIMIT", help="A number, `unlimited`, or `reset`.")]
Scope = Annotated[str, typer.Argument(metavar="SCOPE", help="all, adapter_set or user.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the adapter set or the user.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, as the server sent it.")]
Entries = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=500, help="Maximum number of entries.")]
Offset = Annotated[int, typer.Option("--offset", metavar="N", min=0, help="Number of entries to skip.")]

app = typer.Typer(help="Inspect and control a running server.", no_args_is_help=True, rich_markup_mode=None)
tlex_app = typer.Typer(help="The sessions of the TLEX hub.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(tlex_app, name="tlex")

# What the commands stand on is imported inside them: no other command shall wait for it.


@app.callback()
def login(
    context: typer.Context,
    api: Annotated[
        str, typer.Option("--api", envvar="PENSTOCK_ADMIN_API", metavar="URL", help="The server's API port.")
    ] = DEFAULT_API,
    user: Annotated[
        str, typer.Option("--user", envvar="PENSTOCK_ADMIN_USER", metavar="NAME", help="Your user name.")
    ] = "admin",
    # Not as an option: what is on a command line everybody on the machine can see.
    password_stdin: Annotated[
        bool,
        typer.Option(
            "--password-stdin",
            help="Read the password from standard input instead of PENSTOCK_ADMIN_PASSWORD or a prompt.",
        ),
    ] = False,
    ca: Authorities = None,
) -> None:
    context.obj = {"api": api, "user": user, "password_stdin": password_stdin, "ca": ca}


def ask(context: typer.Context, method: str, path: str, body: object = None, **query: object) -> Any:
    from penstock.client.admin_api import BASE

    return ask_below(BASE, context, method, path, body, **query)


def ask_below(base: str, context: typer.Context, method: str, path: str, body: object = None, **query: object) -> Any:
    """The same for what is elsewhere at the API port, and knows the same users."""
    with _one_line_on_error():
        return _connection(context, base).ask(method, path, body, **query)


def _connection(context: typer.Context, base: str) -> AdminApi:
    import os

    from penstock.client.admin_api import AdminApi
    from penstock.client.trust import trusting

    given = context.obj
    trust = None if given["ca"] is None else trusting(given["ca"])
    if given["password_stdin"]:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        found = os.environ.get("PENSTOCK_ADMIN_PASSWORD")
        password = str(typer.prompt("Password", hide_input=True, err=True)) if found is None else found
    return AdminApi(given["api"], given["user"], password, trust, base)


@contextmanager
def _one_line_on_error() -> Iterator[None]:
    from penstock.client.admin_api import AdminRefused, AdminUnreachable
    from penstock.client.trust import advice

    try:
        yield
    except AdminUnreachable as error:
        raise complaint(f"{error}{advice(error)}", UNREACHABLE) from None
    except AdminRefused as error:
        raise complaint(str(error), FAILED) from None
    except ValueError as error:
        raise complaint(str(error), WRONG) from None


def print_json(answer: object) -> None:
    _print([json.dumps(answer)])


def _print(lines: Sequence[str]) -> None:
    try:
        for line in lines:
            typer.echo(line)
    except BrokenPipeError:
        reader_left()


def print_table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Columns as wide as they need be; what is not there is a dash."""
    cells = [list(columns), *[[_cell(row[column]) for column in columns] for row in rows]]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    _print(["  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip() for row in cells])


def print_part(found: dict[str, Any], name: str, columns: Sequence[str]) -> None:
    """A part of a list, and whether there is more of it."""
    print_table(found[name], columns)
    if found["total"] > len(found[name]):
        typer.echo(f"penstock: {len(found[name])} of {found['total']}; --offset and --limit show others", err=True)


def _cell(value: object) -> str:
    """Names are chosen by clients: none moves the cursor of the terminal."""
    if value is None or value == "":
        return "-"
    return "".join([each if each.isprintable() else "?" for each in str(value)])


# -- looking --------------------------------------------------------------------------------------------------------


@app.command()
def sessions(
    context: typer.Context,
    user: Annotated[str | None, typer.Option("--of", metavar="USER", help="Only those of this user.")] = None,
    adapter_set: Annotated[
        str | None, typer.Option("--set", metavar="SET", help="Only those of this adapter set.")
    ] = None,
    limit: Entries = 100,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List the open sessions."""
    found = ask(context, "GET", "/sessions", user=user, adapter_set=adapter_set, limit=limit, offset=offset)
    if as_json:
        print_json(found)
        return
    columns = (
        "session",
        "user",
        "adapter_set",
        "address",
        "transport",
        "subscriptions",
        "items",
        "max_kbps",
        "updates",
    )
    print_part(found, "sessions", columns)


@app.command()
def session(context: typer.Context, name: Session, as_json: Json = False) -> None:
    """Show a session with its subscriptions."""
    found = ask(context, "GET", f"/sessions/{quote(name, safe='')}")
    if as_json:
        print_json(found)
        return
    subscribed = found.pop("subscribed")
    _print([f"{key}: {_cell(value)}" for key, value in found.items()])
    if subscribed:
        rows = [{**each, "names": " ".join(each["names"])[:60]} for each in subscribed]
        print_table(rows, ("number", "data_adapter", "mode", "items", "max_per_second", "names"))


@app.command()
def items(
    context: typer.Context,
    adapter_set: Annotated[
        str | None, typer.Option("--set", metavar="SET", help="Only those of this adapter set.")
    ] = None,
    limit: Entries = 100,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List the items that have subscribers or are journaled."""
    found = ask(context, "GET", "/items", adapter_set=adapter_set, limit=limit, offset=offset)
    if as_json:
        print_json(found)
    else:
        print_table(found["items"], ("adapter_set", "data_adapter", "item", "mode", "subscribers", "events"))


@app.command()
def adapters(context: typer.Context, as_json: Json = False) -> None:
    """List the adapters and their state."""
    found = ask(context, "GET", "/adapters")
    if as_json:
        print_json(found)
    else:
        print_table(found, ("adapter", "kind", "state", "trouble"))


# -- sessions and subscriptions -------------------------------------------------------------------------------------


@app.command()
def end(
    context: typer.Context,
    name: Session,
    code: Annotated[
        int | None, typer.Option("--code", metavar="N", help="32, 48, or your own code, 0 or below.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="Message for the client.")] = None,
) -> None:
    """End a session."""
    given = {"code": code, "message": message}
    body = {key: value for key, value in given.items() if value is not None}
    ask(context, "DELETE", f"/sessions/{quote(name, safe='')}", body)
    typer.echo(f"penstock: session {name} ended")


@app.command()
def bandwidth(context: typer.Context, name: Session, limit: Limit) -> None:
    """Set a session's bandwidth in kbit/s, or reset it to what the metadata adapter allows."""
    path = f"/sessions/{quote(name, safe='')}/bandwidth"
    found = _set(context, path, "max_kbps", limit)
    typer.echo(f"penstock: session {name}: {_limit_in_words(found['max_kbps'], 'kbit/s')}")


@app.command()
def frequency(context: typer.Context, name: Session, number: Number, limit: Limit) -> None:
    """Set a subscription's updates per second, or reset them to what the metadata adapter allows."""
    path = f"/sessions/{quote(name, safe='')}/subscriptions/{number}/frequency"
    found = _set(context, path, "max_per_second", limit)
    words = _limit_in_words(found["max_per_second"], "updates/s")
    typer.echo(f"penstock: session {name}, subscription {number}: {words}")


def _set(context: typer.Context, path: str, key: str, limit: str) -> Any:
    if limit == "reset":
        return ask(context, "DELETE", path)
    try:
        value = None if limit == NO_LIMIT else float(limit)
    except ValueError:
        raise complaint(f"LIMIT = {limit}: expected a number, {NO_LIMIT} or reset", WRONG) from None
    return ask(context, "PUT", path, {key: value})


def _limit_in_words(limit: float | None, unit: str) -> str:
    return "no limit" if limit is None else f"{limit:g} {unit}"


@app.command()
def unsubscribe(context: typer.Context, name: Session, number: Number) -> None:
    """End a subscription of a session."""
    ask(context, "DELETE", f"/sessions/{quote(name, safe='')}/subscriptions/{number}")
    typer.echo(f"penstock: session {name}: subscription {number} ended")


# -- who is let in --------------------------------------------------------------------------------------------------


@app.command()
def blocks(context: typer.Context, as_json: Json = False) -> None:
    """List the blocks: who may not open new sessions."""
    _print_blocks(ask(context, "GET", "/blocks"), as_json)


@app.command()
def block(context: typer.Context, scope: Scope, name: Name = "") -> None:
    """Block new sessions: all, of an adapter set or of a user. They are refused with error 10; open ones continue."""
    _print_blocks(ask(context, "PUT", "/blocks", {"scope": scope, "name": name}), False)


@app.command()
def unblock(context: typer.Context, scope: Scope, name: Name = "") -> None:
    """Remove a block."""
    _print_blocks(ask(context, "DELETE", "/blocks", scope=scope, name=name or None), False)


def _print_blocks(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_table(found, ("scope", "name", "by"))


# -- the server as a whole ------------------------------------------------------------------------------------------


@app.command()
def drain(
    context: typer.Context,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="N", min=0, help="End sessions evenly within this time.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the process when no session is left.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the drain.")] = False,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NAME", help="Drain only this node, named as by `penstock cluster status`."),
    ] = None,
) -> None:
    """Refuse new sessions before a stop; with --seconds, end open ones evenly over that time."""
    if cancel:
        found = ask(context, "DELETE", "/drain", node=node)
    else:
        body = {"seconds": seconds, "stop": stop}
        found = ask(context, "POST", "/drain", body if node is None else {**body, "node": node})
    state = "draining" if found["draining"] else "not draining"
    typer.echo(f"penstock: {'' if node is None else f'{node}: '}{state}, {found['sessions']} sessions")


@app.command()
def reload(context: typer.Context) -> None:
    """Make the server read its configuration again, like SIGHUP."""
    found = ask(context, "POST", "/reload")
    words = [f"{key} {', '.join(found[key])}" for key in ("new", "changed", "gone") if found[key]]
    typer.echo(f"penstock: reloaded: {'; '.join(words) or 'no adapter set has changed'}")
    if found["needs_restart"]:
        typer.echo(f"penstock: these keys need a restart: {', '.join(found['needs_restart'])}", err=True)


@app.command()
def levels(context: typer.Context, as_json: Json = False) -> None:
    """List the categories of the log with their levels."""
    found = ask(context, "GET", "/levels")
    if as_json:
        print_json(found)
    else:
        print_table([{"category": key, "level": value} for key, value in found.items()], ("category", "level"))


@app.command()
def level(
    context: typer.Context,
    category: Annotated[str, typer.Argument(metavar="CATEGORY", help="Category, such as penstock.doors.")],
    wanted: Annotated[str, typer.Argument(metavar="LEVEL", help="debug, info, warning, error, or `reset`.")],
) -> None:
    """Set the log level of a category, or reset it to that of the configuration."""
    body = {"category": category, "level": None if wanted == "reset" else wanted}
    found = ask(context, "PUT", "/levels", body)
    typer.echo(f"penstock: {category}: {found.get(category, wanted)}")


@app.command("clear-failure")
def clear_failure(
    context: typer.Context,
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="SET/NAME, or SET for a metadata adapter.")],
) -> None:
    """Mark a failed adapter as working again, after the cause has been fixed."""
    ask(context, "POST", "/adapters/clear", {"adapter": adapter})
    typer.echo(f"penstock: adapter {adapter}: failure cleared")


# -- the TLEX hub ---------------------------------------------------------------------------------------------------


@tlex_app.command("sessions")
def tlex_sessions(context: typer.Context, limit: Entries = 100, offset: Offset = 0, as_json: Json = False) -> None:
    """List the sessions of the TLEX hub."""
    found = ask(context, "GET", "/tlex/sessions", limit=limit, offset=offset)
    if as_json:
        print_json(found)
    else:
        columns = ("id", "account", "domain", "type", "state", "identifiers", "received", "sent", "dropped")
        print_table(found["sessions"], columns)


@tlex_app.command("end")
def tlex_end(context: typer.Context, session_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """End a session of the TLEX hub."""
    ask(context, "DELETE", f"/tlex/sessions/{quote(session_id, safe='')}")
    typer.echo(f"penstock: TLEX session {session_id} ended")


@tlex_app.command("reconnect")
def tlex_reconnect(context: typer.Context, session_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Ask the peer of a TLEX session to reconnect with a new session."""
    ask(context, "POST", f"/tlex/sessions/{quote(session_id, safe='')}/reconnect")
    typer.echo(f"penstock: TLEX session {session_id} asked to reconnect")
