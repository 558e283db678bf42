"""All sessions, counted by what they have in common: how they are connected, their adapter set, their library.

Counted now and then, some of them at a time; here, and not where the figures are shown, because this is compiled: with
ten thousand sessions it is much of what an idle server does. What happens is counted in `tally`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.kernel.session import Session

# For clients whose library is not known.
UNKNOWN_LIBRARY = "unknown"


class Population:
    """Those in use: sessions that clients have opened ahead of time do not count."""

    def __init__(self, before: Population | None = None) -> None:
        """Of what there was before there is none, until it is counted: a figure that vanishes is not the same as 0."""
        self.transports: dict[str, int] = {}
        self.adapter_sets: dict[str, int] = {}
        self.libraries: dict[str, int] = {}
        # The sum of the limits of those that have one, in kbit/s.
        self.allocated = 0.0
        if before is not None:
            self.transports = dict.fromkeys(before.transports, 0)
            self.adapter_sets = dict.fromkeys(before.adapter_sets, 0)
            self.libraries = dict.fromkeys(before.libraries, 0)

    def count(self, sessions: list[Session]) -> None:
        """These as well."""
        for session in sessions:
            if not session.used:
                continue
            _add(self.transports, session.transport)
            _add(self.adapter_sets, session.adapter_set)
            _add(self.libraries, session.library or UNKNOWN_LIBRARY)
            limit = session.max_bandwidth
            if limit is not None:
                self.allocated += limit


def _add(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
