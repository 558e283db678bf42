"""What the lines of a V-Log controller mean: the first is its token, each other one a payload.

The hub's rules are those of all sessions (`exchange`); the line itself is in `wire.tlex.vlog`. Read next: docs/tlex.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.wire.tlex.vlog import MAX_LINE, VlogReader, is_message, payload_frame
from penstock.wire.tlex.vocabulary import Protocol

if TYPE_CHECKING:
    from penstock.exchange.conversation import Conversation
    from penstock.exchange.instant import Instant


class VlogInterpreter:
    """As `Interpreter`, for lines."""

    __slots__ = ("_conversation", "_kept", "_payload_type", "_reader")

    def __init__(self, conversation: Conversation, payload_type: int) -> None:
        self._conversation = conversation
        self._payload_type = payload_type
        self._reader = VlogReader()
        # Lines that came after a token that nobody has decided about yet.
        self._kept: list[bytes] = []

    def received(self, data: bytes, now: Instant) -> None:
        lines = self._reader.feed(data)
        if self._conversation.awaiting:
            self._kept += lines
        else:
            self._interpret(lines, now)

    def resume(self, now: Instant) -> None:
        lines, self._kept = self._kept, []
        if self._begin(now):
            self._interpret(lines, now)

    def _interpret(self, lines: list[bytes], now: Instant) -> None:
        conversation = self._conversation
        payloads: list[bytes] = []
        for position, line in enumerate(lines):
            session = conversation.session
            if session is None:
                conversation.show(line.decode("ascii", "replace"), now)
                if conversation.awaiting:
                    self._kept = lines[position + 1 :]
                    return
                if not self._begin(now):
                    return
            elif is_message(line):
                payloads.append(payload_frame(line, self._payload_type, now.utc))
            elif line:
                session.counters.unknown += 1
        if payloads and not conversation.publish(payloads, now):
            return
        if self._reader.is_too_long:
            conversation.violate(f"a line has more than {MAX_LINE} characters", now)

    def _begin(self, now: Instant) -> bool:
        """Returns whether to go on."""
        conversation = self._conversation
        session = conversation.session
        if conversation.open and session is not None and session.protocol is not Protocol.VLOG:
            conversation.violate(f"this session has {session.protocol.value}, which has no lines", now)
        return conversation.open
