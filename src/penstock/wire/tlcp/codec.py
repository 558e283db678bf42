"""The kernel's codec port in TLCP: protocol-neutral events in, lines out. One instance per version, shared by all
sessions.

Specification: chapter 3. The request side is in `requests`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mypy_extensions import mypyc_attr

from penstock.wire.numbers import decimal
from penstock.wire.quick import value_list
from penstock.wire.tlcp.differences import FORMATS, DifferenceEncoder
from penstock.wire.tlcp.lines import NOOP, PROBE, end, line
from penstock.wire.tlcp.version import Version


@mypyc_attr(allow_interpreted_subclasses=True)
class TlcpCodec:
    """Builds the notifications of one protocol version."""

    def __init__(self, version: Version, accepted_differences: str = FORMATS, min_length: int = 50) -> None:
        self.version = version
        self.protocol = "TLCP"
        self._message_response = version.has_message_response
        self._differences = DifferenceEncoder(accepted_differences if version.has_differences else "", min_length)

    def update_prefix(self, subscription: int, item: int) -> bytes:
        """The part of an update that differs between subscriptions to the same values."""
        return f"U,{subscription},{item},".encode()

    def update_body(
        self,
        values: tuple[str | None, ...],
        previous: tuple[str | None, ...] | None,
        differences: Sequence[str],
        patched: int,
    ) -> tuple[bytes, int]:
        """The part of an update, including the line end, that subscriptions in the same state share."""
        if previous is None or not differences:
            body: bytes = value_list(values, previous)
            return body, 0
        text, patched = self._differences.encode(values, previous, differences, patched)
        return (text + "\r\n").encode("utf-8", "replace"), patched

    def subscribed(self, subscription: int, items: int, fields: int) -> bytes:
        return line("SUBOK", subscription, items, fields)

    def subscribed_command(
        self, subscription: int, items: int, fields: int, key_field: int, command_field: int
    ) -> bytes:
        return line("SUBCMD", subscription, items, fields, key_field, command_field)

    def unsubscribed(self, subscription: int) -> bytes:
        return line("UNSUB", subscription)

    def configured(self, subscription: int, max_frequency: float | None, filtered: bool) -> bytes:
        frequency = "unlimited" if max_frequency is None else decimal(max_frequency, least_digits=1)
        return line("CONF", subscription, frequency, "filtered" if filtered else "unfiltered")

    def end_of_snapshot(self, subscription: int, item: int) -> bytes:
        return line("EOS", subscription, item)

    def snapshot_cleared(self, subscription: int, item: int) -> bytes:
        return line("CS", subscription, item)

    def overflow(self, subscription: int, item: int, lost: int) -> bytes:
        return line("OV", subscription, item, lost)

    def message_done(self, sequence: str | None, progressive: int, response: str) -> bytes:
        name = "*" if sequence is None else sequence
        if self._message_response:
            return line("MSGDONE", name, progressive, response)
        return line("MSGDONE", name, progressive)

    def message_failed(self, sequence: str | None, progressive: int, code: int, message: str) -> bytes:
        return line("MSGFAIL", "*" if sequence is None else sequence, progressive, int(code), message)

    def constrained(self, max_bandwidth: float | None, managed: bool) -> bytes:
        if not managed:
            return line("CONS", "unmanaged")
        return line("CONS", "unlimited" if max_bandwidth is None else decimal(max_bandwidth))

    def recovering(self, progressive: int) -> bytes:
        return line("PROG", progressive)

    def synchronized(self, seconds: int) -> bytes:
        # Not by `line`, because idle clients are sent little else.
        return b"SYNC,%d\r\n" % seconds

    def probe(self) -> bytes:
        return PROBE

    def padding(self, size: int) -> bytes:
        """Whole dummy lines of at least `size` bytes."""
        return NOOP * -(-size // len(NOOP))

    def loop(self, delay_millis: int) -> bytes:
        return line("LOOP", delay_millis)

    def end(self, code: int, message: str) -> bytes:
        return end(code, message)
