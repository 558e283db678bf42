"""The commands `penstock backup` and `penstock restore`. What they do is in `backup`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.config import ConfigError, load
from penstock.terminal import FAILED, WRONG, complaint

ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The server's configuration file.")]
DataDir = Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="The server's data directory.")]


def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The backup: a directory that does not exist yet.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Copy the data directory, also while a server runs. PostgreSQL and configuration files are not part of it."""
    from penstock.backup.backup import make

    with _one_line_on_error(target):
        found = make(_place(config, data_dir), target)
    typer.echo(f"penstock: {target}: {found.files} files, {found.bytes} bytes")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A backup that `penstock backup` has made.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Copy a backup to a data directory that is new or empty. Then start the server."""
    from penstock.backup.backup import restore as put_back

    place = _place(config, data_dir)
    with _one_line_on_error(place):
        found = put_back(source, place)
    typer.echo(f"penstock: {place}: {found.files} files, {found.bytes} bytes")


def _place(config: Path | None, data_dir: str | None) -> Path:
    try:
        loaded = load(config, {} if data_dir is None else {"server.data_dir": data_dir})
    except ConfigError as error:
        raise complaint(str(error), WRONG) from None
    return Path(loaded.config.server.data_dir)


@contextmanager
def _one_line_on_error(target: Path) -> Iterator[None]:
    from penstock.backup.backup import BackupError

    try:
        yield
    except BackupError as error:
        raise complaint(str(error), FAILED) from None
    except OSError as error:
        name = error.filename or target
        raise complaint(f"{name}: {error.strerror or error}; the incomplete copy was deleted", FAILED) from None
