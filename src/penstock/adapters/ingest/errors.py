"""Every way in which a batch is turned down, as one tree; nothing has changed then. Each knows its status in HTTP.

BatchError
├── RowsRefused    422  rows that cannot be; sending them again does not help
├── UnknownStage   409  a commit names a stage that is not here: stage again
├── TooLarge       413  it will never fit: smaller batches help, for which Spark needs a new checkpoint
├── Busy           429  there is no room just now: try again
└── Unavailable    503  the journal refuses, or the server goes down: try again
"""

from __future__ import annotations

# What helps against a batch that the server has no setting for. Spark notes what belongs to a batch before it runs it.
SMALLER = (
    "fewer rows in a batch help. A Spark query that has begun a batch keeps its rows: delete its checkpoint, and start"
    " it with a lower maxEventsPerTrigger (max_events of a job); what it has published, it publishes again"
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
