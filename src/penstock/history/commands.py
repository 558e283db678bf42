"""The commands `penstock history tail`, the journal as it is written, and `penstock history show`, one entity's past.

Neither needs Spark nor a running server: both read files. Not here: how they are read (journal.reader, reader).
Read next: docs/history.md.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.config import Config, ConfigError, load
from penstock.terminal import FAILED, WRONG, complaint, reader_left

# Seconds between two polls of a journal that is followed: looks immediate to people, and costs almost nothing.
LOOK = 0.1

A_TIME = "a time such as 2026-01-31T12:00:00Z"

app = typer.Typer(help="Read what was journaled.", no_args_is_help=True, rich_markup_mode=None)

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The server's configuration file. Default: none is read."),
]
DataDir = Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="The server's data directory.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


class _Wrong(Exception):
    """The command line is invalid; the text says why."""


@app.command()
def tail(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="ENTITY-PATTERN…", help="Entities, such as 'WELCOME/STOCKS/*'. Default: all."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest, a sequence number or a time. Default: earliest; with --follow latest.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing records as they are written.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Print the records of the journal, even while it is being written."""
    # Imported here, so that no other command has to wait for it.
    from penstock.journal.errors import Expired
    from penstock.journal.reader import JournalReader
    from penstock.journal.selection import EventSelection

    with _one_line_on_error():
        directory = _data_dir(config, data_dir) / "journal"
        if not directory.is_dir():
            raise _Wrong(f"there is no journal in {directory.parent}")
        reader = JournalReader(directory, report=lambda damage: typer.echo(f"penstock: damaged: {damage}", err=True))
        position = _position(reader, start or ("latest" if follow else "earliest"))
        selection = EventSelection(tuple(patterns or ()))
        while True:
            stop = reader.poll() + 1
            try:
                if position < stop:
                    for batch in reader.read(position, stop, selection):
                        _print(batch.to_pylist(), as_json)
                        position = batch.column("sequence")[-1].as_py() + 1
                    position = stop
            except Expired as expired:
                # Dropped by retention while we were reading, or before: said, and gone on from what is left.
                typer.echo(f"penstock: {expired}", err=True)
                position = expired.earliest
                continue
            if not follow:
                return
            time.sleep(LOOK)


@app.command()
def show(
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="SET/ADAPTER/ITEM")],
    revisions: Annotated[
        str | None, typer.Option("--revisions", metavar="A-B", help="Revisions from A to B, both included.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Events at or after this time.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Events before this time.")] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Print the events of one entity, from the lake and the journal together."""
    from penstock.history.lake_root import lake_of, may_be
    from penstock.history.reader import History

    with _one_line_on_error():
        loaded = _loaded(config, data_dir)
        directory, lake = Path(loaded.server.data_dir), lake_of(loaded)
        first, last = _revisions(revisions)
        begin = None if since is None else _micros("--since", since)
        end = None if until is None else _micros("--until", until)
        if revisions is not None and (begin is not None or end is not None):
            raise _Wrong("--revisions cannot be combined with --since and --until")
        if not (directory / "journal").is_dir() and not may_be(lake):
            raise _Wrong(f"there is neither a journal nor a lake in {directory}")
        history = History(directory / "journal", lake)
        found = False
        for batch in history.read(entity, first=first, last=last, since=begin, until=end):
            found = True
            _print(batch.to_pylist(), as_json)
    if not found:
        typer.echo(f"penstock: {entity}: no such events", err=True)
        raise typer.Exit(FAILED)


# -- reading options ----------------------------------------------------------------------------------------------


def _data_dir(config: Path | None, data_dir: str | None) -> Path:
    return Path(_loaded(config, data_dir).server.data_dir)


def _loaded(config: Path | None, data_dir: str | None) -> Config:
    return load(config, {} if data_dir is None else {"server.data_dir": data_dir}).config


def _position(reader: Any, start: str) -> int:
    if start == "earliest":
        return int(reader.earliest())
    if start == "latest":
        return int(reader.poll()) + 1
    if start.isascii() and start.isdigit():
        return int(start)
    return int(reader.sequence_at(_micros("--from", start, f"earliest, latest, a sequence number or {A_TIME}")))


def _micros(option: str, text: str, allowed: str = A_TIME) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise _Wrong(f"{option} = {text}: expected {allowed}") from None
    if when.tzinfo is None:
        raise _Wrong(f"{option} = {text}: expected a time with its zone, such as {text}Z")
    delta = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _revisions(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    found = re.fullmatch(r"(\d*)(-?)(\d*)", text, re.ASCII)
    if found is None or not (found[1] or found[3]):
        raise _Wrong(f"--revisions = {text}: expected A-B, A-, -B or one revision")
    first = int(found[1]) if found[1] else None
    if not found[2]:
        return first, first
    last = int(found[3]) if found[3] else None
    if first is not None and last is not None and first > last:
        raise _Wrong(f"--revisions = {text}: expected the lower one first")
    return first, last


# -- printing -----------------------------------------------------------------------------------------------------


def _print(records: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    typer.echo("\n".join(_as_json(record) if as_json else _as_text(record) for record in records))


def _as_json(record: Mapping[str, Any]) -> str:
    fields = dict(record)
    fields["timestamp"] = _time(record)
    # Values are JSON where they have structure: then they are part of the object, otherwise text.
    for name in ("value", "headers"):
        if fields.get(name) is not None:
            try:
                fields[name] = json.loads(fields[name])
            except ValueError:
                continue
    return json.dumps(fields, ensure_ascii=False)


def _as_text(record: Mapping[str, Any]) -> str:
    path = f" {record['path']}" if record["path"] else ""
    value = "-" if record["value"] is None else record["value"].replace("\n", "\\n").replace("\r", "\\r")
    entity = record["entity"]
    return f"{record['sequence']} {_time(record)} {entity} r{record['revision']} {record['kind']}{path} {value}"


def _time(record: Mapping[str, Any]) -> str:
    return str(record["timestamp"].isoformat(timespec="microseconds").removesuffix("+00:00") + "Z")


@contextmanager
def _one_line_on_error() -> Iterator[None]:
    try:
        yield
    except (_Wrong, ConfigError) as error:
        raise complaint(str(error), WRONG) from None
    except BrokenPipeError:
        # A reader that stops listening (`| head`) and Ctrl-C are the usual ways to end these commands: no words about
        # it.
        reader_left()
        raise typer.Exit(0) from None
    except OSError as error:
        raise complaint(str(error), FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
