"""What is wrong with a journal's files, as plain data: found by `scan`, collected by `recovery` and `reader`.

Damaged bytes are never returned as records, and never raise: they are reported, counted and skipped.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that cannot be read. `first` and `last` are the sequences missing because of it, None if unknown."""

    file: str
    position: int
    length: int
    first: int | None
    last: int | None
    what: str

    def __str__(self) -> str:
        if self.first is None:
            missing = "unknown records"
        elif self.last is None:
            missing = f"records from {self.first}"
        elif self.last < self.first:
            missing = "no record"
        else:
            missing = f"records {self.first} to {self.last}"
        return f"{self.file} at byte {self.position}, {self.length} bytes: {self.what}; {missing} missing"
