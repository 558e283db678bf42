"""The command `penstock history maintain`: the upkeep of the lake for those who run the job `history` seldom, or not.

It has the job's settings, and needs neither Spark nor a journal. Not here: what is done (`maintenance`).
Read next: docs/history.md, "Retention".
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import msgspec
import typer

from penstock.pipeline.commands import ConfigFile, DataDir, Json, loaded, one_line_on_error, plan
from penstock.pipeline.errors import BadOption
from penstock.pipeline.place import Place

# The job whose settings are those of the lake.
_JOB = "history"


def maintain_command(
    max_age_days: Annotated[
        float | None,
        typer.Option(
            "--max-age-days",
            metavar="DAYS",
            help="Drop events that are older; 0: none. Default: max_age_days of the job history.",
        ),
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Drop events that are too old from the lake, merge its small files, and remove files that are not needed.

    The pipeline's job history does the same while it runs. Needs no Spark. The server may be running.
    """
    with one_line_on_error():
        # With Arrow and Delta, which no other command shall wait for.
        from penstock.pipeline.maintenance import maintain_alone

        given = loaded(config, data_dir)
        settings = plan(given, _JOB).settings
        if max_age_days is not None:
            try:
                settings = msgspec.structs.replace(settings, max_age_days=max_age_days)
            except ValueError as error:
                raise BadOption(f"--max-age-days: {error}") from None
        done = maintain_alone(
            Place.of(given).lake, settings.max_small_files, settings.max_age_days, settings.time_travel_hours
        )
    if as_json:
        typer.echo(json.dumps(asdict(done)))
        return
    age = f"older than {settings.max_age_days:g} days " if settings.max_age_days else ""
    typer.echo(
        f"penstock: {done.dropped} events {age}dropped, {done.merged} files merged, "
        f"{done.removed} files that are not needed any more removed"
    )
