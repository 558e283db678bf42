"""The commands `penstock history erase`, which forgets an entity wherever it is kept, and `erased`, which was.

The server and the pipeline are stopped meanwhile. What is done is in `erasure`. Read next: docs/history.md, "Erasing".
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.config import Config, ConfigError, load
from penstock.history.commands import ConfigFile, DataDir, Json
from penstock.journal.entity import parts_of
from penstock.terminal import FAILED, WRONG, complaint

if TYPE_CHECKING:
    from penstock.erasure.erasure import Erasure
    from penstock.journal.erasure_note import ErasureNote


def erase(
    entities: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENTITY…", help="SET/ADAPTER/ITEM. Without one, finish an erasure that was interrupted."
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who erases, for the record. Default: the user's name.")
    ] = None,
    reference: Annotated[
        str, typer.Option("--reference", metavar="TEXT", help="For the record, such as the number of a request.")
    ] = "",
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Also delete the checkpoints of the pipeline's jobs: they start over.")
    ] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also if there are no events.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Erase all events of entities for ever: from journal, lake, twins, items and database. Stop the server first.

    Only a record that it happened is left, without the name.
    """
    names = sorted(set(entities or ()))
    for name in names:
        if parts_of(name) is None:
            raise complaint(f"{name}: expected SET/ADAPTER/ITEM", WRONG)
    loaded = _load(config, data_dir)
    from penstock.erasure.erasure import erasure_in  # Arrow and Delta take their time to load

    with _one_line_on_error(), erasure_in(loaded) as erasure:
        unfinished = erasure.unfinished()
        if unfinished is not None:
            _finish(erasure, unfinished)
        elif not names:
            raise complaint("no erasure was interrupted; name an entity", WRONG)
        if names:
            events = erasure.count(names)
            missing = [name for name, count in events.items() if not count]
            if missing and not anyway:
                raise complaint(f"{missing[0]}: no such events; nothing was erased", FAILED)
            for name, count in events.items():
                typer.echo(f"penstock: {name}: {count} events")
            if not yes and not typer.confirm("Erase them for ever, with all older versions of the lake?"):
                raise typer.Exit(FAILED)
            _finish(erasure, erasure.begin(events, by or getpass.getuser(), reference))
        if checkpoints:
            erasure.delete_checkpoints()
        for path in erasure.checkpoints():
            typer.echo(f"penstock: {path} may contain results from erased events; --checkpoints deletes it")
        if erasure.remote_checkpoints:
            typer.echo(
                f"penstock: {erasure.remote_checkpoints} may contain results from erased events; delete what is there, "
                "except history, with the tools of the store"
            )


def erased(
    entity: Annotated[str | None, typer.Argument(metavar="ENTITY", help="Was this one erased? Default: all.")] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Print the records of erasures; with an entity those of it. The exit code is 1 if there are none."""
    loaded = _load(config, data_dir)
    from penstock.erasure.erasure import past_erasures
    from penstock.erasure.record import is_of

    found = False
    with _one_line_on_error():
        for timestamp, record in past_erasures(loaded):
            if entity is not None and not is_of(entity, record.entity):
                continue
            found = True
            time = datetime.fromtimestamp(timestamp / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            if as_json:
                fields = {"time": time, "by": record.by, "events": record.events, "reference": record.reference}
                typer.echo(json.dumps({**fields, "entity": record.entity, "id": record.id}))
            else:
                reference = f" ({record.reference})" if record.reference else ""
                typer.echo(f"{time} {record.events} events of an entity, by {record.by}{reference}")
    if not found:
        raise complaint(f"{entity}: no erasure is recorded" if entity else "no erasure is recorded", FAILED)


def _finish(erasure: Erasure, note: ErasureNote) -> None:
    erasure.finish(note)
    for name, count in note.events.items():
        typer.echo(f"penstock: {name}: {count} events erased")


def _load(config: Path | None, data_dir: str | None) -> Config:
    try:
        return load(config, {} if data_dir is None else {"server.data_dir": data_dir}).config
    except ConfigError as error:
        raise complaint(str(error), WRONG) from None


@contextmanager
def _one_line_on_error() -> Iterator[None]:
    from penstock.journal.erasure_note import BadNote
    from penstock.journal.errors import JournalError
    from penstock.pipeline.errors import BadOption, PipelineError
    from penstock.services.errors import StartError
    from penstock.store.errors import StoreError

    try:
        yield
    except BadOption as error:
        raise complaint(str(error), WRONG) from None
    except (StartError, BadNote, JournalError, PipelineError, StoreError, OSError) as error:
        raise complaint(str(error), FAILED) from None
