"""Every way in which a batch is rejected, as one tree; nothing has changed then. Each knows its HTTP status.

BatchError
├── RowsRefused    422  invalid rows; sending them again does not help
├── UnknownStage   409  a commit names an unknown stage: stage again
├── TooLarge       413  it will never fit: use smaller batches, for which Spark needs a new checkpoint
├── Busy           429  there is no room at present: try again
└── Unavailable    503  the journal refuses, or the server is shutting down: try again
"""

from __future__ import annotations

# What to do about a batch that is too large for any setting. Spark fixes the rows of a batch before it runs it.
SMALLER = (
    "use fewer rows per batch. A Spark query that has begun a batch keeps its rows: delete its checkpoint, and start"
    " it with a lower maxEventsPerTrigger (max_events of a job); it publishes again what it has published before"
)


class BatchError(Exception):
    """The root of the tree above."""

    status: int


class RowsRefused(BatchError):
    """`errors` are the first reasons, with the numbers of their rows from 1."""

    status = 422

    def __init__(self, errors: list[dict[str, object]]) -> None:
        super().__init__(str(errors))
        self.errors = errors


class UnknownStage(BatchError):
    """The text names it."""

    status = 409


class TooLarge(BatchError):
    """The text names the size, the limit and what to do."""

    status = 413


class Busy(BatchError):
    """The text names what is used up."""

    status = 429


class Unavailable(BatchError):
    """The text says why."""

    status = 503
