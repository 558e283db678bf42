"""The kernel's codec port in the text protocol: protocol-neutral events in, push contents out. One instance serves all
sessions.

Events that this protocol has no message for are empty. Specification: 4.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.wire.text6.values import encode_values, escape_message

# The name for messages without a sequence, in both directions.
UNORDERED_MESSAGES = "UNORDERED_MESSAGES"

PROBE = b"PROBE\r\n"
LOOP = b"LOOP\r\n"
NOTHING = b""


class Text6Codec:
    """Builds push contents."""

    def __init__(self) -> None:
        self.protocol = "text 6.0.2"

    def update_prefix(self, subscription: int, item: int) -> bytes:
        """The part of an update that differs between tables with the same values."""
        return b"%d,%d|" % (subscription, item)

    def update_body(
        self,
        values: tuple[str | None, ...],
        previous: tuple[str | None, ...] | None,
        differences: Sequence[str],
        patched: int,
    ) -> tuple[bytes, int]:
        """The part of an update, including the line end, that tables in the same state share. Always whole values."""
        return f"{encode_values(values, previous)}\r\n".encode("ascii"), 0

    def subscribed(self, subscription: int, items: int, fields: int) -> bytes:
        return NOTHING

    def subscribed_command(
        self, subscription: int, items: int, fields: int, key_field: int, command_field: int
    ) -> bytes:
        return NOTHING

    def unsubscribed(self, subscription: int) -> bytes:
        return NOTHING

    def configured(self, subscription: int, max_frequency: float | None, filtered: bool) -> bytes:
        return NOTHING

    def end_of_snapshot(self, subscription: int, item: int) -> bytes:
        return b"%d,%d,EOS\r\n" % (subscription, item)

    def snapshot_cleared(self, subscription: int, item: int) -> bytes:
        return NOTHING

    def overflow(self, subscription: int, item: int, lost: int) -> bytes:
        return b"%d,%d,OV%d\r\n" % (subscription, item, lost)

    def message_done(self, sequence: str | None, progressive: int, response: str) -> bytes:
        """The adapter's response has no place in this protocol."""
        return f"MSG,{_name(sequence)},{progressive},DONE\r\n".encode("ascii")

    def message_failed(self, sequence: str | None, progressive: int, code: int, message: str) -> bytes:
        text = escape_message(message)
        return f"MSG,{_name(sequence)},{progressive},ERR,{int(code)},{text}\r\n".encode("ascii")

    def constrained(self, max_bandwidth: float | None, managed: bool) -> bytes:
        return NOTHING

    def recovering(self, progressive: int) -> bytes:
        return NOTHING

    def synchronized(self, seconds: int) -> bytes:
        return NOTHING

    def probe(self) -> bytes:
        return PROBE

    def loop(self, delay_millis: int) -> bytes:
        """Polling clients are told the holding time; without one it is zero."""
        return b"LOOP %d\r\n" % delay_millis if delay_millis else LOOP

    def end(self, code: int, message: str) -> bytes:
        """Only the code has a place in this protocol."""
        return b"END %d\r\n" % code


def _name(sequence: str | None) -> str:
    return UNORDERED_MESSAGES if sequence is None else sequence
