"""The log of a process that is one of several: its lines go over a socket to the one that writes them all.

Whoever logs waits for that one for a moment at most. Not here: where lines end up (handler), which process is which.
Read next: `penstock.log.relay_to`, `penstock.log.write_relayed`.
"""

from __future__ import annotations

import json
import logging
import select
import socket
from collections.abc import Mapping

from penstock.log.lines import event_of, fields_of
from penstock.log.repeats import LimitedHandler, Repeats

# Milliseconds that a line waits for room; while nobody reads, further ones do not wait at all, and are counted.
PATIENCE = 200


class LogRelay(LimitedHandler):
    """Lines go out whole or not at all; how many did not is told with the next that does."""

    def __init__(self, out: socket.socket, repeats: Repeats) -> None:
        super().__init__(repeats)
        out.setblocking(False)
        self._out = out
        # The end of a line whose beginning has been sent.
        self._rest = b""
        self._lost = 0

    def hand_on(self, record: logging.LogRecord) -> None:
        line = {
            "created": record.created,
            "level": record.levelno,
            "name": record.name,
            "event": event_of(record),
            "fields": fields_of(record),
            "lost": self._lost,
        }
        data = json.dumps(line).encode("utf-8", "backslashreplace") + b"\n"
        has_room = not self._rest or self._send(self._rest)
        # One that was begun counts as sent: its end comes before the next.
        is_sent = has_room and (self._send(data) or bool(self._rest))
        self._lost = 0 if is_sent else self._lost + 1

    def _send(self, data: bytes) -> bool:
        """Whether all of it is sent; what is left of a part is kept."""
        left = memoryview(data)
        begun = bool(self._rest)
        while left:
            try:
                left = left[self._out.send(left) :]
                begun = True
            except BlockingIOError:
                if self._lost or not self._waits_for_room():
                    self._rest = bytes(left) if begun else b""
                    return False
            except OSError:
                # The other end is gone, and with it everybody who could be told.
                self._rest = b""
                return False
        self._rest = b""
        return True

    def _waits_for_room(self) -> bool:
        room = select.poll()
        room.register(self._out, select.POLLOUT)
        return bool(room.poll(PATIENCE))


class RelayedLines:
    """Makes records of what a relay sends; `source` names the field and the value that tell the processes apart."""

    def __init__(self, source: Mapping[str, str]) -> None:
        self._source = source
        self._begun = b""

    def feed(self, data: bytes) -> list[logging.LogRecord]:
        *whole, self._begun = (self._begun + data).split(b"\n")
        return [self._record(json.loads(line)) for line in whole]

    def _record(self, line: dict[str, object]) -> logging.LogRecord:
        fields = line["fields"]
        assert isinstance(fields, dict)
        record = logging.makeLogRecord(
            {
                "name": line["name"],
                "levelno": line["level"],
                "levelname": logging.getLevelName(int(str(line["level"]))),
                # Percent signs in it mean nothing, because there are no arguments.
                "msg": line["event"],
                "created": line["created"],
            }
        )
        record.fields = {**self._source, **fields, **({"lost_lines": line["lost"]} if line["lost"] else {})}
        return record
