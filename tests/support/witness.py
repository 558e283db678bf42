"""A session that was there before the trouble, and the search for what the trouble has left behind."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable

from penstock.doors.stream.http import StreamConnection
from penstock.doors.stream.response import HttpResponse
from penstock.doors.stream.websocket import WebSocketConnection
from penstock.kernel.session import Session
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params

PATIENCE = 10.0
TRACKED = frozenset((StreamConnection, HttpResponse, WebSocketConnection, Session))


class Witness:
    """Streams over HTTP and over WebSocket, one session each, and expects every update on both."""

    def __init__(self, server: BackgroundServer) -> None:
        self.server = server
        self._updates = 0
        server.adapter.state["seen"] = {"n": "0"}
        exchange = Exchange(server.host, server.port)
        subscription = {"op": "add", "subId": 1, "group": "seen", "schema": "n", "mode": "MERGE", "snapshot": True}
        self._stream = exchange.stream(send_sync=False, keepalive_millis=30_000)
        exchange.control(self._stream.session, reqId=1, **subscription)
        self._socket = exchange.socket()
        self._socket.create(send_sync=False, keepalive_millis=30_000)
        self._socket.send("control", params(reqId=1, **subscription))
        assert self._stream.read_until("U")[-1] == "U,1,1,0"
        assert self._socket.read_until("U")[-1] == "U,1,1,0"
        # The connection of the control request goes away in its own time.
        self.eventually(lambda: self.connections() == 2)

    def close(self) -> None:
        self._stream.http.close()
        self._socket.__exit__(None, None, None)

    def still_sees_updates(self) -> None:
        self._updates += 1
        self.server.update("seen", n=str(self._updates))
        # On a slow machine a probe may come before it.
        assert [line for line in self._stream.read_until("U") if line != "PROBE"] == [f"U,1,1,{self._updates}"]
        assert [line for line in self._socket.read_until("U") if line != "PROBE"] == [f"U,1,1,{self._updates}"]

    # -- what is left ---------------------------------------------------------------------------------------------

    def connections(self) -> int:
        return self.server.call(len, self.server.server.stream.connections)

    def counted(self) -> int:
        return self.server.call(len, self.server.server.stream.connection_census)

    def sessions(self) -> int:
        return self.server.call(len, self.server.server.kernel.sessions)

    def finds_nothing_left(self) -> None:
        """Only the witness's own connections and sessions are there, and they still work."""
        self.eventually(lambda: (self.connections(), self.counted(), self.sessions()) == (2, 2, 2))
        self.still_sees_updates()

    def finds_no_objects_left(self) -> None:
        """Nor does anything hold on to what belonged to the others: two connections and one response are ours."""
        expected = {StreamConnection: 1, HttpResponse: 1, WebSocketConnection: 1, Session: 2}
        self.eventually(lambda: self.tracked() == expected)

    def tracked(self) -> dict[type, int]:
        """How many objects of each kind belong to this server, after a collection."""
        return self.server.call(_tracked, self.server)

    def eventually(self, condition: Callable[[], bool]) -> None:
        """Let the server run, turn by turn, until the condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, (
                f"still {self.connections()} connections, {self.counted()} counted, {self.sessions()} sessions, "
                f"{self.tracked()}"
            )
            time.sleep(0.001)


def _tracked(server: BackgroundServer) -> dict[type, int]:
    gc.collect()
    found: list[type] = []
    # Few of the objects of a process are ours: the type alone is soon looked up.
    for entry in [each for each in gc.get_objects() if type(each) in TRACKED]:
        if isinstance(entry, StreamConnection | WebSocketConnection):
            ours = entry.http_port is server.server.stream
        elif isinstance(entry, HttpResponse):
            ours = entry._connection.door is server.server.stream
        else:
            ours = entry.kernel is server.server.kernel
        if ours:
            found.append(type(entry))
    return {kind: found.count(kind) for kind in TRACKED}


class ErrorLog(logging.Handler):
    """Collects every record at ERROR and above: nothing that a client sends may cause one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name}: {record.getMessage()} {getattr(record, 'fields', '')}"
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.records.append(text)
