"""What has happened since the start, in plain integers: those who do the work add, and nothing else.

Rates, maxima over time and quantiles are made of them elsewhere (`penstock.monitor`), once a second.
"""

from __future__ import annotations


class Tally:
    """The one per kernel. What many clients are sent together counts for each of them."""

    def __init__(self) -> None:
        # Events: from data adapters; past the prefilter; sent to clients; left out, and lost for lack of room.
        self.events_in = 0
        self.events_passed = 0
        self.updates_out = 0
        self.filtered = 0
        self.lost = 0
        # Bytes of notifications, as they were given to connections.
        self.bytes_out = 0
        # Messages of clients given to metadata adapters, and their characters.
        self.messages = 0
        self.message_characters = 0
        # Sessions ever opened, and refused because there were too many, the load was too high or they were blocked.
        self.opened_sessions = 0
        self.refused_sessions = 0
        # Sessions that have been used: those that their clients have opened ahead of time do not count until then.
        self.used_sessions = 0
        self.most_sessions = 0
        # Items of subscriptions: one that ten clients are subscribed to counts ten times.
        self.subscribed_items = 0
        self.most_subscribed_items = 0

    def use_session(self) -> None:
        self.used_sessions += 1
        self.most_sessions = max(self.most_sessions, self.used_sessions)

    def subscribe_items(self, count: int) -> None:
        """So many more, or fewer if below zero."""
        self.subscribed_items += count
        self.most_subscribed_items = max(self.most_subscribed_items, self.subscribed_items)
