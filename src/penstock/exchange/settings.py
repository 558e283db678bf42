"""The numbers of the hub: limits for each type of session, and what is the same for all.

What happens at each limit is described here; it is done in `conversation`, `receiver` and `hub`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock.wire.tlex.vocabulary import Protocol, SessionType

# Bytes of a KB in the throughput limit.
KILOBYTE = 1024


@dataclass(frozen=True, slots=True)
class HubLimits:
    """Limits of a session; clients are told them. Beyond each but the last the session ends, with Bye and a reason."""

    # No byte received for this long.
    keep_alive_seconds: float = 5.0
    # The difference of the clocks on average over the window.
    clock_difference_millis: int = 3_000
    clock_difference_window_seconds: float = 60.0
    # Received payloads on average over the window, all of them: also those that are dropped.
    payloads_per_second: int = 1_200
    payloads_window_seconds: float = 5.0
    # Their bytes, without type, identifier and timestamp.
    kilobytes_per_second: int = 120
    kilobytes_window_seconds: float = 5.0
    # In one session; a request for more is refused.
    max_identifiers: int = 10_000

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:
                raise ValueError(f"{each.name} is {value}; it must be greater than 0")


TLC_LIMITS = HubLimits(payloads_per_second=12, kilobytes_per_second=60, max_identifiers=100)
BROKER_LIMITS = HubLimits()
MONITOR_LIMITS = HubLimits()
# V-Log repeats its time every five minutes, and has a message for each change otherwise.
VLOG_LIMITS = HubLimits(keep_alive_seconds=360.0, payloads_per_second=100, kilobytes_per_second=60)

# The payload type of V-Log messages, where nothing else was agreed on: V in ASCII.
VLOG_PAYLOAD_TYPE = 0x56


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Of the hub."""

    tlc: HubLimits = TLC_LIMITS
    broker: HubLimits = BROKER_LIMITS
    monitor: HubLimits = MONITOR_LIMITS
    # Of sessions of controllers that send V-Log.
    vlog: HubLimits = VLOG_LIMITS
    vlog_payload_type: int = VLOG_PAYLOAD_TYPE

    # Seconds from the request to the connection; then the session ends, and its token is invalid.
    token_seconds: float = 5.0
    # Seconds from the connection to a valid token; then the connection is closed.
    handshake_seconds: float = 5.0
    # How much longer than its keep-alive timeout a session may actually be silent: published clients send one only
    # every 5.01 seconds.
    keep_alive_slack: float = 0.1
    timestamps_seconds: float = 15.0
    # From Reconnect to Bye.
    reconnect_grace_seconds: float = 10.0

    # What may wait for a slow receiver; beyond either limit the oldest payloads are dropped and counted.
    queue_frames: int = 10_000
    queue_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if self.queue_frames < 1:
            raise ValueError(f"queue_frames is {self.queue_frames}; it must be 1 or more")

    def limits(self, type: SessionType, protocol: Protocol) -> HubLimits:
        if protocol is Protocol.VLOG:
            return self.vlog
        by_type = {SessionType.TLC: self.tlc, SessionType.BROKER: self.broker, SessionType.MONITOR: self.monitor}
        return by_type[type]
