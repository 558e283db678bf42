"""The command `penstock journal verify`: whether the files of a journal are intact.

It reads only, and may be run beside a server. How the files are looked through is in `verification`.
Read next: docs/journal.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.config import ConfigError, load
from penstock.terminal import complaint

if TYPE_CHECKING:
    from penstock.journal.verification import Verification

DAMAGED = 1
WRONG = 2

app = typer.Typer(help="Check the journal.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def journal() -> None:
    """Check the journal."""


@app.command()
def verify(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The server's configuration file. Default: none is read."),
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", metavar="DIR", help="The server's data directory.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check every file of a journal. The exit code is 0 if all are intact, 1 if any is damaged, 2 without a journal.

    Nothing is changed. A server may be running; records that it commits in the meantime are not checked.
    """
    from penstock.journal.disk import DirectoryDisk  # Arrow takes its time to load
    from penstock.journal.errors import JournalError
    from penstock.journal.recovery import bases
    from penstock.journal.verification import verify as look

    try:
        loaded = load(config, {} if data_dir is None else {"server.data_dir": data_dir}).config
    except ConfigError as error:
        raise complaint(str(error), WRONG) from None
    directory = Path(loaded.server.data_dir) / "journal"
    try:
        disk = DirectoryDisk(directory)
        if not bases(disk):
            raise complaint(f"there is no journal in {directory}", WRONG)
        found = look(disk)
    except FileNotFoundError:
        raise complaint(f"there is no journal in {directory}", WRONG) from None
    except (JournalError, OSError) as error:
        raise complaint(f"the journal {directory} cannot be read: {error}", DAMAGED) from None
    if as_json:
        typer.echo(json.dumps(_as_object(found, directory)))
    else:
        _print(found, directory)
    raise typer.Exit(0 if found.is_good else DAMAGED)


def _as_object(found: Verification, directory: Path) -> dict[str, object]:
    return {
        "ok": found.is_good,
        "directory": str(directory),
        "segments": found.segments,
        "frames": found.frames,
        "records": found.records,
        "first": found.first,
        "last": found.last,
        "bytes": found.size,
        "uncommitted_bytes": found.uncommitted_bytes,
        "damages": [
            {
                "file": damage.file,
                "position": damage.position,
                "length": damage.length,
                "first": damage.first,
                "last": damage.last,
                "what": damage.what,
            }
            for damage in found.damages
        ],
    }


def _print(found: Verification, directory: Path) -> None:
    for damage in found.damages:
        typer.echo(f"penstock: damaged: {damage}")
    verdict = "ok" if found.is_good else f"{len(found.damages)} damaged places"
    numbers = f", {found.first} to {found.last}" if found.records else ""
    counted = f"{found.segments} segments, {found.records} records{numbers}, {found.size} bytes"
    typer.echo(f"penstock: {directory}: {counted}: {verdict}")
