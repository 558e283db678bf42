"""Who has done what to the running server, in the log and in the journal: entity `admin`, kind `action`.

It never waits and never raises: an action that cannot be journaled is done all the same, because a full disk may be why
it is needed; the log has it then. Read next: docs/administration.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from penstock.log import get
from penstock.services.admin.logins import Administrator

if TYPE_CHECKING:
    from penstock.journal.gatherer import Gatherer

log = get(__name__)

ENTITY = "admin"
KIND = "action"

_JSON = msgspec.json.Encoder()


class Audit:
    """`gatherer` gives that of the server, or None without a journal."""

    def __init__(self, gatherer: Callable[[], Gatherer | None]) -> None:
        self._gatherer = gatherer

    def done(self, who: Administrator, action: str, **details: object) -> None:
        """Somebody has done something; `details` have no secrets."""
        log.info("administration", action=action, by=who.name, address=who.address, **details)
        gatherer = self._gatherer()
        if gatherer is None:
            return
        from penstock.journal.errors import JournalError  # loaded with the journal, on its thread
        from penstock.journal.journal import Policy
        from penstock.journal.record import Columns

        columns = Columns()
        value = {"action": action, "by": who.name, "address": who.address, **details}
        columns.add(ENTITY, gatherer.now(), KIND, "", _JSON.encode(value).decode())
        try:
            gatherer.append(columns, Policy.INTERVAL)
        except JournalError as error:
            log.error("an action of an administrator is not journaled", action=action, by=who.name, reason=str(error))

    def refused(self, who: Administrator, action: str, reason: str) -> None:
        """Nothing was changed."""
        log.warning("administration refused", action=action, user=who.name, address=who.address, reason=reason)
