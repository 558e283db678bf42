"""Every error of the journal, as one tree; what is wrong with a file is reported, not raised: see `damage`.

JournalError
├── BadRecord          the caller's columns are invalid; nothing was appended
├── Overload           the disk cannot keep up and the queue is full; nothing was appended, try again later
├── DiskFailed         the disk refused (full, broken); nothing of this is in the journal, try again later
├── JournalClosed      the journal was closed, or its writer has died
│   └── Fenced         another process may own it by now; the last records may be in it or not
├── DirectoryInUse     another process writes this journal
├── UnknownVersion     a segment was written by a newer program
├── NotErasable        records cannot be taken out of a segment
└── Expired            what is asked for was dropped by retention
"""

from __future__ import annotations


class JournalError(Exception):
    """The root of the tree above."""


class BadRecord(JournalError):
    """The text names the column and the value."""


class Overload(JournalError):
    """More bytes wait for the disk than the queue may hold."""


class DiskFailed(JournalError):
    """`errno` is the system's number, as in ENOSPC and EIO."""

    def __init__(self, message: str, errno: int | None) -> None:
        super().__init__(message)
        self.errno = errno


class JournalClosed(JournalError):
    """No more can be appended to this object."""


class Fenced(JournalClosed):
    """Raised only where a journal has a fence: see `fence`."""


class DirectoryInUse(JournalError):
    """One writer per directory."""


class UnknownVersion(JournalError):
    """The text names the segment, its version and the newest one known here."""


class NotErasable(JournalError):
    """The text names the segment and says what to do."""


class Expired(JournalError):
    """`earliest` is the first sequence that can still be read."""

    def __init__(self, message: str, earliest: int) -> None:
        super().__init__(message)
        self.earliest = earliest
