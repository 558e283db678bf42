"""The kernel of a server with the loop turns that it runs in.

It has no port and no file: it runs from its creation on, and is idle when the doors have drained.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import fields

from penstock.config import Config
from penstock.doors.stream.carrier import SocketCarrier
from penstock.doors.stream.turns import Turns
from penstock.kernel.identity import SessionIds
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.monitor.figures import Family, counter, durations, gauge
from penstock.services.service import Service


class KernelService(Service):
    """Made on the event loop."""

    name = "kernel"

    def __init__(self, config: Config) -> None:
        self.turns = Turns(asyncio.get_running_loop())
        ids = SessionIds(config.server.node, os.urandom)
        carrier = SocketCarrier(config.stream.max_outbound_frame_size)
        self.kernel = Kernel(time.monotonic, self.turns, ids, session_limits(config), carrier=carrier)
        self.turns.run_kernel(self.kernel)

    async def drain(self) -> None:
        self.turns.stop()

    def figures(self) -> Iterable[Family]:
        tally, ledger = self.kernel.tally, self.kernel.ledger
        feeds = self.kernel.feeds.values()
        return (
            counter("penstock_events_received", "Events from data adapters.", tally.events_in),
            counter("penstock_events_passed", "Events that passed the prefilter of their item.", tally.events_passed),
            counter(
                "penstock_events_unwanted",
                "Events of items without subscribers.",
                sum([feed.unwanted_events for feed in feeds]),
            ),
            counter(
                "penstock_events_bad",
                "Invalid events, which were dropped.",
                sum([feed.bad_events for feed in feeds]),
            ),
            counter("penstock_updates_sent", "Updates sent to clients.", tally.updates_out),
            counter(
                "penstock_updates_filtered",
                "Updates left out because of a frequency limit, a bandwidth limit or a slow client.",
                tally.filtered,
            ),
            counter("penstock_updates_lost", "Updates lost because a buffer was full.", tally.lost),
            counter("penstock_sent_bytes", "Bytes of notifications sent to sessions.", tally.bytes_out),
            counter("penstock_messages", "Client messages passed to metadata adapters.", tally.messages),
            counter(
                "penstock_message_characters",
                "Characters of client messages passed to metadata adapters.",
                tally.message_characters,
            ),
            counter("penstock_sessions_opened", "Sessions opened.", tally.opened_sessions),
            counter("penstock_sessions_refused", "Sessions refused because of a load limit.", tally.refused_sessions),
            gauge("penstock_sessions", "Sessions in use.", tally.used_sessions),
            gauge(
                "penstock_sessions_unused",
                "Sessions that clients have opened in advance and not used yet.",
                len(self.kernel.sessions) - tally.used_sessions,
            ),
            gauge("penstock_sessions_most", "Maximum number of sessions in use so far.", tally.most_sessions),
            gauge("penstock_items", "Items that have subscribers.", sum([len(feed.items) for feed in feeds])),
            gauge(
                "penstock_item_subscriptions",
                "Item subscriptions: the items of all subscriptions, added up.",
                tally.subscribed_items,
            ),
            gauge(
                "penstock_item_subscriptions_most",
                "Maximum of item subscriptions so far.",
                tally.most_subscribed_items,
            ),
            gauge("penstock_waiting_bytes", "Bytes waiting for clients.", ledger.waiting),
            gauge("penstock_recovery_bytes", "Bytes kept for the recovery of sessions.", ledger.logged),
            counter(
                "penstock_reliefs",
                "How often more than `session.max_waiting_bytes` waited for clients, so that the server freed memory.",
                ledger.reliefs,
            ),
            counter(
                "penstock_relief_sessions_conflated", "Sessions that lost events to free memory.", ledger.shed_sessions
            ),
            counter(
                "penstock_relief_logs_emptied",
                "Sessions whose recovery log was emptied to free memory, so that they could not recover.",
                ledger.emptied_logs,
            ),
            counter("penstock_relief_connections_cut", "Connections closed to free memory.", ledger.cut_reserves),
            counter("penstock_relief_sessions_closed", "Sessions closed to free memory.", ledger.cut_sessions),
            gauge(
                "penstock_rest_seconds",
                "Pause between two writes of a session, because it is configured or the machine cannot keep up.",
                self.kernel.rest,
            ),
            durations("penstock_update_age_seconds", "Age of data when it is written.", self.turns.ages),
        )


def session_limits(config: Config) -> SessionLimits:
    """The kernel's limits carry the names of the configuration's keys."""
    known = {field.name for field in fields(SessionLimits)}
    found = {}
    for section in (config.session, config.limits):
        found.update({name: getattr(section, name) for name in section.__struct_fields__ if name in known})
    return SessionLimits(**found)
