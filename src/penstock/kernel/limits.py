"""The bounds of a session's life, each with unit and consequence.

Values come from the configuration, section [session].
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Defaults are those of the configuration."""

    # An unbound session that was asked to rebind (LOOP) is closed after this time.
    session_timeout_millis: int = 10_000
    # A session whose connection broke is kept this long for recovery.
    session_recovery_millis: int = 13_000
    # Sent data notifications kept for recovery: the oldest go when there are more bytes, or when they are older.
    max_recovery_length: int = 65_536
    max_recovery_age_millis: int = 60_000
    # END 48 after this time; 0 means never.
    max_session_duration_minutes: float = 0
    # A streaming connection is asked to rebind after this time; 0 means never.
    max_streaming_millis: int = 0
    # What the client asks for is clamped to these bounds.
    default_keepalive_millis: int = 5_000
    min_keepalive_millis: int = 1_000
    max_keepalive_millis: int = 30_000
    max_polling_millis: int = 15_000
    max_idle_millis: int = 30_000
    min_inactivity_millis: int = 1_000
    max_inactivity_millis: int = 3_600_000
    # SYNC is sent at this interval on streaming connections that want it.
    sync_millis: int = 10_000
    # Events kept per item when a buffer has no limit of its own; the oldest are dropped beyond it.
    max_buffer_size: int = 1_000
    # Bytes of events that may wait for one session, and as many that may be encoded for it in one turn; the oldest
    # are dropped beyond it.
    max_pending_bytes: int = 4_194_304
    # Bytes that may wait for all sessions together; beyond it the sessions for which most waits lose events, then
    # their connections. 0 means no limit.
    max_waiting_bytes: int = 536_870_912
    # The least time between two writes of a session; what comes in between goes in one. 0 means a write at every turn.
    max_delay_millis: int = 0
    # Notifications kept for a session that cannot take them; one more closes the session.
    max_unbound_notifications: int = 10_000
    # Difference formats tried for fields whose data adapter declares none.
    default_diff_order: str = ""
    # How long a message waits for missing predecessors when the client does not say, and at the most.
    missing_message_timeout_millis: int = 30_000
    # Subscriptions per session, and items per subscription; one more is refused.
    max_subscriptions_per_session: int = 10_000
    max_items_per_subscription: int = 10_000
    # Open sessions in all; one more is refused. 0 means no limit.
    max_sessions: int = 0


def clamp(value: int | None, default: int, lowest: int, highest: int) -> int:
    """What the client asks for, clamped to the configured bounds; `default` when it asks for nothing."""
    return default if value is None else max(lowest, min(value, highest))
