"""What a client and a broker owe one another about messages: packet identifiers, and acknowledgements in their order.

`received` says which messages are new, `settle` that one of them has been dealt with, `give` makes a message that is
to be sent; all of them return what is to be written, or leave it in `out`. A session outlives connections.
"""

from __future__ import annotations

from collections import deque

from penstock.wire.mqtt.errors import MqttError
from penstock.wire.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    MqttAnswer,
    MqttMessage,
    acknowledge,
    publish,
)

MAX_PACKET_ID = 65_535


class MqttSession:
    """One client's. `out` is what is to be written next."""

    def __init__(self, is_new: bool) -> None:
        self._is_new = is_new
        self.out = bytearray()
        # Messages that came and are not settled yet, and those of them that are, but wait for an earlier one.
        self._owed: deque[MqttMessage] = deque()
        self._settled: set[int] = set()
        # Identifiers of quality of service 2 that the broker has not released.
        self._released_later: set[int] = set()
        # What was sent and not acknowledged: None once only its release is owed.
        self._sent: dict[int, MqttMessage | None] = {}
        self._last_id = 0

    @property
    def unsettled(self) -> int:
        return len(self._owed)

    def next_id(self) -> int:
        for _ in range(MAX_PACKET_ID):
            self._last_id = self._last_id % MAX_PACKET_ID + 1
            if self._last_id not in self._sent:
                return self._last_id
        raise MqttError("all packet identifiers are in use")

    # -- what comes ------------------------------------------------------------------------------------------------

    def received(self, message: MqttMessage) -> bool:
        """Whether it is new: then it is to be settled, if its quality of service is not 0."""
        if message.qos == 0:
            return True
        if message.qos == 2 and message.packet_id in self._released_later:
            self.out += acknowledge(PUBREC, message.packet_id)
            return False
        self._owed.append(message)
        return True

    def settle(self, message: MqttMessage) -> None:
        """It has been dealt with, once and for all. Acknowledgements have the order of the messages."""
        if message.qos == 0:
            return
        self._settled.add(id(message))
        owed, settled = self._owed, self._settled
        while owed and id(owed[0]) in settled:
            first = owed.popleft()
            settled.discard(id(first))
            if first.qos == 2:
                self._released_later.add(first.packet_id)
            self.out += acknowledge(PUBREC if first.qos == 2 else PUBACK, first.packet_id)

    # -- what goes -------------------------------------------------------------------------------------------------

    def give(self, message: MqttMessage) -> None:
        """Write it; one with a quality of service is kept until it is acknowledged."""
        if message.qos:
            message.packet_id = self.next_id()
            self._sent[message.packet_id] = message
        self.out += publish(message, self._is_new)

    def answered(self, answer: MqttAnswer) -> tuple[int, int] | None:
        """A packet about one of our messages: its identifier and the broker's code, once that is all."""
        packet_id = answer.packet_id
        if answer.kind == PUBREL:
            self._released_later.discard(packet_id)
            self.out += acknowledge(PUBCOMP, packet_id)
            return None
        if packet_id not in self._sent:
            # Of a connection before this one.
            if answer.kind == PUBREC:
                self.out += acknowledge(PUBREL, packet_id)
            return None
        if answer.kind == PUBREC and answer.code < 0x80:
            self._sent[packet_id] = None
            self.out += acknowledge(PUBREL, packet_id)
            return None
        del self._sent[packet_id]
        return packet_id, answer.code

    def lost(self) -> list[int]:
        """The connection is gone: identifiers of what was sent and not acknowledged, which nobody will hear of."""
        gone = list(self._sent)
        self._sent.clear()
        self._owed.clear()
        self._settled.clear()
        self._released_later.clear()
        self.out.clear()
        return gone
