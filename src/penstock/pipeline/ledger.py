"""What a job remembers from one batch to the next, beside Spark's own state: a table for each batch, in files.

Batch N begins with what batch N-1 left, also when it is run again after a crash: the same rows then give the same
result, which is what exactly once asks of everything that is published. Read next: `windows`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.durable import sync_file
from penstock.pipeline.errors import PipelineError

# Spark runs again the last batch, and more only if a power cut took some of its own files along.
KEPT = 10


class LedgerLost(PipelineError):
    """What the batch before had left is not there."""


class BatchLedger:
    """In a directory of its own below the query's checkpoint, so that both are kept, copied and deleted together."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def before(self, batch: int) -> pa.Table | None:
        """What the batch ahead of this one left; None for the first. Raises LedgerLost."""
        if batch == 0:
            return None
        path = self._path(batch - 1)
        try:
            with pa.OSFile(str(path)) as file:
                return pa.ipc.open_file(file).read_all()
        except (OSError, pa.ArrowException) as error:
            raise LedgerLost(
                f"{path} cannot be read ({error}); the checkpoint {self._directory.parent} is incomplete: "
                "delete it to start over"
            ) from None

    def leave(self, batch: int, table: pa.Table) -> None:
        """For the next batch; there once this returns."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._path(batch)
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
            sync_file(file.fileno())
        temporary.replace(path)
        self._path(batch - KEPT).unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self._directory / f"{batch}.arrow"
