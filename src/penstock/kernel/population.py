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
        """These as well. Neighbours are mostly alike, and are counted together."""
        transport, adapter_set, library = "", "", UNKNOWN_LIBRARY
        alike = 0
        for session in sessions:
            if not session.used:
                continue
            limit = session.max_bandwidth
            if limit is not None:
                self.allocated += limit
            its_transport, its_library = session.transport, session.client.library or UNKNOWN_LIBRARY
            if its_transport != transport or session.adapter_set != adapter_set or its_library != library:
                self._add(alike, transport, adapter_set, library)
                transport, adapter_set, library = its_transport, session.adapter_set, its_library
                alike = 0
            alike += 1
        self._add(alike, transport, adapter_set, library)

    def _add(self, alike: int, transport: str, adapter_set: str, library: str) -> None:
        if alike:
            self.transports[transport] = self.transports.get(transport, 0) + alike
            self.adapter_sets[adapter_set] = self.adapter_sets.get(adapter_set, 0) + alike
            self.libraries[library] = self.libraries.get(library, 0) + alike
