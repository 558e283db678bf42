"""Data adapters with entrances of their own to kernel and journal: not for authors of adapters, who extend DataAdapter.

Whoever extends this lives on the event loop and keeps the kernel's rules by itself. Who calls it: `running`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adapters.api import DataAdapter
from penstock.kernel.feed import Feed
from penstock.kernel.ports import Grant, Wish

if TYPE_CHECKING:
    from penstock.journal.recorder import JournalItemRecorder


class InsideAdapter(DataAdapter):
    """A ready-made adapter that trusts itself; `enter` and `journal_to` come after `attach` and before `start`."""

    # Whether it decides itself who may have what of its items; the set's metadata adapter is not asked then.
    decides = False

    def grant(self, session: str, wish: Wish) -> Grant:
        """If it decides: what the session, named by its id, gets. At once; raises a Refusal."""
        raise NotImplementedError

    def enter(self, feed: Feed) -> None:
        """The kernel's own entrance, in place of the publisher."""

    def journal_to(self, recorder: JournalItemRecorder | None, directory: Path | None) -> None:
        """What the adapter publishes is journaled by the kernel, through this recorder; None if nothing is.

        For adapters that journal something themselves, wait until it is on the disk, or keep a state of their own in
        `directory`, which all adapters share and which may not exist yet; None: nothing is to be kept.
        """

    async def keep_state(self) -> None:
        """Files of the journal are about to be dropped: what the adapter would read in them is to be kept elsewhere.

        Raises what keeps it from doing so; then nothing is dropped.
        """
