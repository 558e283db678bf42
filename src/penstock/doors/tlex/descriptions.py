"""Sessions as others see them: JSON for clients, a row for the database when they have ended.

What a session is, is in `exchange.session`. Specification: 5.2.1.1.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import UNSET

from penstock.exchange.session import HubSession
from penstock.store.records import SessionLog
from penstock.wire.tlex.rest import ListenerBody, SessionAnswer, SessionDetails


def described(session: HubSession, host: str, port: int) -> SessionAnswer:
    """As clients see it."""
    limits = session.limits
    # Rounded up to a whole second: clients must not give up too early.
    expiration = datetime.fromtimestamp(-(-session.expires // 1000), UTC)
    return SessionAnswer(
        token=session.token,
        domain=session.domain,
        type=session.type,
        protocol=session.protocol,
        details=SessionDetails(
            security_mode=session.security,
            tlc_identifier=session.identifiers[0] if session.is_singleplex else UNSET,
            tlc_identifiers=UNSET if session.is_singleplex else session.identifiers,
            listener=ListenerBody(host=host, port=port, expiration=expiration),
            keep_alive_timeout=timedelta(seconds=limits.keep_alive_seconds),
            clock_diff_limit=timedelta(milliseconds=limits.clock_difference_millis),
            clock_diff_limit_duration=timedelta(seconds=limits.clock_difference_window_seconds),
            payload_rate_limit=limits.payloads_per_second,
            payload_rate_limit_duration=timedelta(seconds=limits.payloads_window_seconds),
            payload_throughput_limit=limits.kilobytes_per_second,
            payload_throughput_limit_duration=timedelta(seconds=limits.kilobytes_window_seconds),
        ),
    )


def log_entry(session: HubSession) -> SessionLog:
    """What is kept of it, when it has ended."""
    assert session.ended is not None
    assert session.end_reason is not None
    return SessionLog(
        id=session.id,
        account=session.account,
        domain=session.domain,
        type=session.type.value,
        protocol=session.protocol.value,
        identifiers=session.identifiers,
        created=session.created,
        connected=session.connected,
        ended=session.ended,
        end_reason=session.end_reason.value,
        token=session.token,
    )
