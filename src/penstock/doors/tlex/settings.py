"""The settings of the hub and of its nodes, made of the configuration, in the units of `exchange`."""

from __future__ import annotations

from penstock.config import TlexLimitsSection, TlexSection
from penstock.exchange.settings import HubLimits, HubSettings


def settings_of(tlex: TlexSection) -> HubSettings:
    return HubSettings(
        tlc=_limits(tlex.tlc),
        broker=_limits(tlex.broker),
        monitor=_limits(tlex.monitor),
        vlog=HubLimits(
            keep_alive_seconds=tlex.vlog.keep_alive_millis / 1000,
            payloads_per_second=tlex.vlog.payloads_per_second,
            payloads_window_seconds=tlex.vlog.payloads_seconds,
            kilobytes_per_second=tlex.vlog.kilobytes_per_second,
            kilobytes_window_seconds=tlex.vlog.kilobytes_seconds,
        ),
        vlog_payload_type=tlex.vlog.payload_type,
        token_seconds=tlex.token_millis / 1000,
        handshake_seconds=tlex.handshake_millis / 1000,
        timestamps_seconds=tlex.timestamps_millis / 1000,
        reconnect_grace_seconds=tlex.reconnect_millis / 1000,
        queue_frames=tlex.queue_frames,
        queue_bytes=tlex.queue_bytes,
    )


def _limits(limits: TlexLimitsSection) -> HubLimits:
    return HubLimits(
        keep_alive_seconds=limits.keep_alive_millis / 1000,
        clock_difference_millis=limits.clock_difference_millis,
        clock_difference_window_seconds=limits.clock_difference_seconds,
        payloads_per_second=limits.payloads_per_second,
        payloads_window_seconds=limits.payloads_seconds,
        kilobytes_per_second=limits.kilobytes_per_second,
        kilobytes_window_seconds=limits.kilobytes_seconds,
        max_identifiers=limits.max_identifiers,
    )
