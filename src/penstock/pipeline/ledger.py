"""What a job remembers from one batch to the next, beside Spark's own state: a table for each batch, in files.

Batch N begins with what batch N-1 left, also when it is run again after a crash: the same rows then give the same
result, which is what exactly once asks of everything that is published. Read next: `windows`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from penstock.durable import sync_file
from penstock.pipeline.errors import BadOption, PipelineError

# Spark runs again the last batch, and more only if a power cut took some of its own files along.
KEPT = 10

# Schemes of Hadoop for what Arrow knows by others.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}


class LedgerLost(PipelineError):
    """What the batch before had left is not there."""


class LedgerFailed(PipelineError):
    """What a batch leaves could not be written; the batch is run again, and publishes nothing twice."""


class BatchLedger:
    """In a folder of its own below the query's checkpoint, so that both are kept, copied and deleted together."""

    def __init__(self, checkpoint: str | Path, folder: str) -> None:
        """`checkpoint` is a path, or a URL of an object store, whose credentials are in the environment."""
        self._checkpoint = str(checkpoint)
        self._folder = folder
        self._store: _Store = _store(self._checkpoint, folder)

    def before(self, batch: int) -> pa.Table | None:
        """What the batch ahead of this one left; None for the first. Raises LedgerLost, LedgerFailed."""
        if batch == 0:
            return None
        name = _name(batch - 1)
        try:
            return pa.ipc.open_file(self._store.read(name)).read_all()
        except (FileNotFoundError, pa.ArrowException) as error:
            raise LedgerLost(
                f"{self._checkpoint}/{self._folder}/{name} cannot be read ({error}); the checkpoint {self._checkpoint} "
                "is incomplete: delete it to start over"
            ) from None
        except OSError as error:
            raise LedgerFailed(
                f"{self._checkpoint}/{self._folder}/{name} cannot be read now: {_reason(error)}"
            ) from None

    def leave(self, batch: int, table: pa.Table) -> None:
        """For the next batch; there once this returns. Raises LedgerFailed."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        try:
            self._store.write(_name(batch), sink.getvalue())
            self._store.remove(_name(batch - KEPT))
        except OSError as error:
            raise LedgerFailed(
                f"{self._checkpoint}/{self._folder}/{_name(batch)} cannot be written: {_reason(error)}; the batch is "
                "run again, and publishes nothing twice"
            ) from None


class _Store(Protocol):
    """Files by name. A file that is written is there whole or not at all, and replaces one of its name."""

    def read(self, name: str) -> pa.Buffer: ...
    def write(self, name: str, content: pa.Buffer) -> None: ...
    def remove(self, name: str) -> None:
        """Nothing happens if there is none."""


class _Directory:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, name: str) -> pa.Buffer:
        return pa.py_buffer((self._directory / name).read_bytes())

    def write(self, name: str, content: pa.Buffer) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / name
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            sync_file(file.fileno())
        temporary.replace(path)

    def remove(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)


class _Bucket:
    """A folder of an object store, where an object appears with its last byte."""

    def __init__(self, url: str) -> None:
        """Raises BadOption."""
        from pyarrow.fs import FileSystem  # takes its time to load, and few need it

        scheme, separator, rest = url.partition("://")
        try:
            self._files, self._base = FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}{separator}{rest}")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadOption(f"pipeline.checkpoints is {url}; it cannot be used: {_reason(error)}") from None

    def read(self, name: str) -> pa.Buffer:
        with self._files.open_input_file(f"{self._base}/{name}") as file:
            return file.read_buffer()

    def write(self, name: str, content: pa.Buffer) -> None:
        with self._files.open_output_stream(f"{self._base}/{name}") as file:
            file.write(content)

    def remove(self, name: str) -> None:
        path = f"{self._base}/{name}"
        if self._files.get_file_info(path).is_file:
            self._files.delete_file(path)


def _store(checkpoint: str, folder: str) -> _Store:
    parts = urlsplit(checkpoint)
    if "://" not in checkpoint and parts.scheme != "file":
        return _Directory(Path(checkpoint) / folder)
    if parts.scheme == "file":
        return _Directory(Path(unquote(parts.path)) / folder)
    return _Bucket(f"{checkpoint.rstrip('/')}/{folder}")


def _name(batch: int) -> str:
    return f"{batch}.arrow"


def _reason(error: BaseException) -> str:
    """One line: what object stores answer may have many."""
    return " ".join(str(error).split())[:300] or type(error).__name__
