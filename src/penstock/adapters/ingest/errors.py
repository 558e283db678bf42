"""Every way in which a batch is rejected, as one tree; nothing has changed then. Each knows its HTTP status.

BatchError
├── RowsRefused    422  invalid rows; sending them again does not help
├── UnknownStage   409  a commit names an unknown stage: stage again
├── StageConflict  409  a stage is there already, with other rows: use another name
├── TooLarge       413  above a limit that the text names; once it is raised, the same batch is accepted
├── Busy           429  there is no room at present: try again
└── Unavailable    503  the journal refuses, or the server is shutting down: try again
"""

from __future__ import annotations


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


class StageConflict(BatchError):
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
