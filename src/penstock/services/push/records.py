"""What became of notifications, in the log and, if it is wanted, in the journal: entity `push`.

It never waits and never raises. Neither has a device's token or the text of a notification.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from penstock.log import get
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Device, Notification
from penstock.push.sending import Lost

if TYPE_CHECKING:
    from penstock.journal.gatherer import Gatherer

log = get(__name__)

ENTITY = "push"
SENT = "sent"
LOST = "lost"

_JSON = msgspec.json.Encoder()


class SentRecords:
    """`gatherer` gives that of the server, or None if nothing is to be journaled."""

    def __init__(self, gatherer: Callable[[], Gatherer | None]) -> None:
        self._gatherer = gatherer

    def handed_over(self, notification: Notification, device: Device, handover: Handover) -> None:
        """A provider has answered; a notification that is tried again is recorded when that is over."""
        if handover.verdict is Verdict.ACCEPTED:
            log.debug("notification sent", notification=notification.id, subscription=notification.subscription)
            self._record(notification, SENT, platform=device.key.platform.value, application=device.key.application)
        elif handover.verdict is Verdict.CREDENTIALS:
            log.error(
                "the provider does not accept the application's credentials",
                platform=device.key.platform.value,
                application=device.key.application,
                reason=handover.reason,
            )
        elif handover.verdict is Verdict.RETRY:
            log.info("notification not accepted yet", notification=notification.id, reason=handover.reason)

    def lost(self, lost: Lost) -> None:
        """A notification was given up."""
        notification = lost.notification
        log.warning(
            "notification not sent",
            notification=notification.id,
            subscription=notification.subscription,
            loss=lost.loss.value,
            reason=lost.reason,
        )
        self._record(notification, LOST, loss=lost.loss.value, reason=lost.reason)

    def _record(self, notification: Notification, kind: str, **details: str) -> None:
        gatherer = self._gatherer()
        if gatherer is None:
            return
        from penstock.journal.errors import JournalError  # loaded with the journal, on its thread
        from penstock.journal.journal import Policy
        from penstock.journal.record import Columns

        columns = Columns()
        value = {
            "notification": notification.id,
            "device": notification.device,
            "subscription": notification.subscription,
            **details,
        }
        columns.add(ENTITY, gatherer.now(), kind, notification.device, _JSON.encode(value).decode())
        try:
            gatherer.append(columns, Policy.INTERVAL)
        except JournalError as error:
            log.error("a notification is not journaled", notification=notification.id, reason=str(error))
