"""The command `penstock publish`: values of an item from the command line, or JSON lines from standard input.

Not here: what a line may say (`penstock.adapters.ingest.lines`). Read next: docs/clients.md, docs/adapters.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from penstock.client.following import check_text
from penstock.client.options import API_PORT, ApiUrl, Authorities
from penstock.terminal import FAILED, UNREACHABLE, WRONG, complaint

PATH = "/api/ingest"
SECONDS = 30.0
"""How long the server may take for one request: it waits for its disk if the adapter's policy is `ack`."""

CHUNK = 65_536
"""Bytes of input that are sent at once, if there are as many; a line that comes alone is sent alone."""

SHOWN = 5
"""Refused lines of a request that are shown; the rest is counted."""


def publish(
    adapter_set: Annotated[str, typer.Argument(metavar="SET", help="The adapter set.")],
    item: Annotated[
        str | None, typer.Argument(metavar="ITEM", help="The item; without it JSON lines are read from standard input.")
    ] = None,
    fields: Annotated[list[str] | None, typer.Argument(metavar="FIELD=VALUE…", help="Its new values.")] = None,
    adapter: Annotated[str, typer.Option("--adapter", metavar="NAME", help="The ingest adapter.")] = "DEFAULT",
    snapshot: Annotated[bool, typer.Option("--snapshot", help="The values are the item's snapshot.")] = False,
    api: ApiUrl = API_PORT,
    ca: Authorities = None,
    # Not as a value on the command line, which everybody on the machine can see.
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="File with a token of the adapter; or PENSTOCK_TOKEN."),
    ] = None,
) -> None:
    """Publish to an ingest adapter. For example: penstock publish FARM barn temperature=21.5

    Exit codes: 0 everything was accepted, 1 refused by the server, 2 wrong options, 3 no connection to a server.
    """
    from penstock.client.api_port import ApiPort
    from penstock.client.errors import Unreachable
    from penstock.client.trust import advice, trusting

    try:
        for name, text in (("SET", adapter_set), ("--adapter", adapter), ("ITEM", item)):
            check_text(name, text)
        bodies = _input() if item is None else iter([_line(item, fields or [], snapshot)])
        token = _token(token_file)
        port = ApiPort(api, PATH, SECONDS, Unreachable, None if ca is None else trusting(ca))
    except ValueError as error:
        raise complaint(str(error), WRONG) from None
    if item is None and sys.stdin.isatty():
        typer.echo("penstock: reading JSON lines; Ctrl-D ends", err=True)
    target = f"/{quote(adapter_set, safe='')}/{quote(adapter, safe='')}"
    accepted = refused = sent = 0
    try:
        for body in bodies:
            status, answer = port.exchange("POST", target, body, {"Authorization": f"Bearer {token}"})
            good, bad = _report(status, answer, f"{adapter_set}/{adapter}", sent, is_input=item is None)
            accepted, refused, sent = accepted + good, refused + bad, sent + body.count(b"\n")
    except KeyboardInterrupt:
        pass
    except Unreachable as error:
        raise complaint(f"{api}: {error}{advice(error)}", UNREACHABLE) from None
    if refused:
        raise complaint(f"{accepted} accepted, {refused} refused", FAILED)


def _line(item: str, fields: list[str], snapshot: bool) -> bytes:
    values = {}
    for field in fields:
        name, equals, value = field.partition("=")
        check_text("FIELD=VALUE", field)
        if not name or not equals:
            raise ValueError(f"{field!r}: expected FIELD=VALUE, such as price=12.5")
        values[name] = value
    if not values:
        raise ValueError("no values: expected FIELD=VALUE after the item, such as price=12.5")
    return json.dumps({"item": item, "fields": values, "snapshot": snapshot}).encode() + b"\n"


def _input() -> Iterator[bytes]:
    """Whole lines, as soon as they are there: a program that writes one now and then wants it to be seen now."""
    rest = b""
    while chunk := os.read(sys.stdin.fileno(), CHUNK):
        lines, end, new = (rest + chunk).rpartition(b"\n")
        rest = new
        if end:
            yield lines + end
    if rest.strip():
        yield rest + b"\n"


def _token(file: Path | None) -> str:
    if file is None:
        token = os.environ.get("PENSTOCK_TOKEN", "")
        if not token:
            raise ValueError("no token: expected --token-file FILE or the environment variable PENSTOCK_TOKEN")
    else:
        try:
            token = file.read_text("utf-8").strip().partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
        if not token:
            raise ValueError(f"{file} is empty; expected a token")
    if not token.isascii() or not token.isprintable():
        # Whatever is in it goes into a header; it is a secret, so it is not repeated.
        raise ValueError("the token is not printable ASCII")
    return token


def _report(status: int, answer: bytes, target: str, before: int, *, is_input: bool) -> tuple[int, int]:
    """How many lines were accepted and refused; the first refused ones are shown. Raises typer.Exit for all at once."""
    try:
        found = json.loads(answer)
        accepted, refused, errors = int(found["accepted"]), int(found["refused"]), list(found["errors"])
    except (ValueError, KeyError, TypeError):
        raise complaint(f"{target}: this is not an ingest port: status {status}", UNREACHABLE) from None
    for error in errors[:SHOWN]:
        where = f"line {before + int(error['line'])}: " if is_input and "line" in error else ""
        typer.echo(f"penstock: {target}: {where}{error['error']}", err=True)
    if status not in (200, 422):
        raise typer.Exit(FAILED)
    return accepted, refused
