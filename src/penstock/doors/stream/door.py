"""The streaming door: its listeners, its open connections, and what they share.

Which listeners there are is in `transport.entrance`; what is said on them is up to the doors of the protocols.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.config import Config, PagesSection
from penstock.doors.gate import Gate
from penstock.doors.stream.file_response import FileResponse
from penstock.doors.stream.folder import Folder
from penstock.doors.stream.http import StreamConnection, is_text6
from penstock.doors.stream.pages import DOCS_PATH, SITE, ApiPlace, Pages
from penstock.doors.stream.turns import Turns
from penstock.log import get
from penstock.monitor.health import ProbeAnswer, live
from penstock.transport.arrival import HandedConnection
from penstock.transport.asgi import AsgiApplication, Exchange
from penstock.transport.entrance import Entrance, stream_entrances
from penstock.transport.episode import Episode
from penstock.transport.listener import ListenError
from penstock.transport.neighbours import Neighbours
from penstock.transport.origins import Origins
from penstock.transport.parcel import BadParcel, Parcel
from penstock.transport.port import HttpPort
from penstock.transport.proxies import NamedClient
from penstock.wire.http1 import HttpError, HttpRequest

if TYPE_CHECKING:
    from penstock.doors.stream.response import HttpResponse
    from penstock.doors.text6.door import Text6Door
    from penstock.doors.tlcp.door import TlcpDoor

log = get(__name__)

# Files that are read at once.
DISK_THREADS = 4

# Seconds that connections have to write their last lines when the server stops.
STOP_PATIENCE = 5.0

PROBES = frozenset({"/health", "/ready"})

# The folder of the pages that the administration serves.
DASHBOARD = "dashboard"


class StreamDoor(HttpPort):
    """Opened by `listen`, closed by `stop`."""

    def __init__(
        self,
        config: Config,
        turns: Turns,
        tlcp: TlcpDoor,
        text6: Text6Door,
        ready: Callable[[], ProbeAnswer],
        max_connections: int,
        gate: Gate,
        neighbours: Neighbours | None = None,
    ) -> None:
        """`ready` returns what GET /ready answers: status and body. `neighbours` have other sessions of the server."""
        super().__init__("stream", config, Origins(config.cors), max_connections, turns.ledger)
        self.neighbours = neighbours
        self._entrances = {entrance.name: entrance for entrance in stream_entrances(config)}
        self.turns = turns
        self.gate = gate
        self.tlcp = tlcp
        self._text6 = text6
        self.pages = Pages(without=DASHBOARD)
        self.folder = Folder(config.pages) if config.pages.directory else None
        # The documentation, beside the demo's pages.
        self.docs = Folder(PagesSection(directory=str(SITE), path=DOCS_PATH)) if config.demo.enabled else None
        self.has_docs = (SITE / "index.html").is_file()
        # For files of that folder, so that a slow disk keeps nobody else waiting.
        self._disk_threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="pages")
        # Files and the dashboard: each may outlive the connection that it is asked for over.
        self._answers: set[asyncio.Task[None]] = set()
        # With the administration that it needs; None where it is not served.
        self.dashboard: AsgiApplication | None = None
        # For pages of the demo; None without it.
        self.demo_api: ApiPlace | None = None
        self._has_left = False
        self._trespasses = Episode(log, "page refused", "pages are no longer refused")
        self._ready = ready

    async def listen(self, shared: bool = False) -> None:
        """Open the listeners, plain first, then TLS; raises ListenError when an address cannot be had.

        `shared`: other processes listen there as well.
        """
        await self.open(self._entrances.values(), self.config.stream.backlog, shared)
        if self.neighbours is not None:
            self.neighbours.open(self.take)

    def leave(self) -> None:
        """Leave the listeners to the processes that share them. Neighbours still hand over what is for this one."""
        if self.opened and not self.stopping:
            self._has_left = True
            self.leave_listeners()
            log.info("listeners left to other workers")

    async def come_back(self) -> None:
        """Share the listeners again, after `leave`."""
        if not self._has_left or self.stopping:
            return
        self._has_left = False
        try:
            await self.open(self._entrances.values(), self.config.stream.backlog, shared=True)
        except ListenError as error:
            self._has_left = True
            self.leave_listeners()
            log.error("cannot share the listeners again", reason=str(error))
        else:
            log.info("listeners shared with other workers again")
            self._close_if_stopping()

    def _close_if_stopping(self) -> None:
        """The stop may have begun while listeners were opened."""
        if self.stopping:
            self.leave_listeners()

    def close(self) -> None:
        if self.neighbours is not None:
            self.neighbours.close()
        super().close()

    async def take(
        self, accepted: socket.socket, parcel: Parcel, unanswered: bytes, acknowledge: Callable[[], None]
    ) -> None:
        """Go on with a connection of a neighbour; raises BadParcel and OSError, and the neighbour still has it then."""
        entrance = self._entrances.get(parcel.listener)
        if entrance is None:
            raise BadParcel(f"there is no listener {parcel.listener[:60]}")
        if parcel.websocket is not None and not self.has_room_for(parcel.address):
            # There are no words for that on an open WebSocket.
            raise BadParcel("there is no room for another WebSocket")
        connection = StreamConnection(self, entrance, NamedClient(parcel.address, parcel.port))
        connection.vouched_principal = parcel.principal
        go_on = partial(connection.go_on, parcel.websocket, unanswered)
        arrival = HandedConnection(connection, acknowledge, go_on)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: arrival, accepted)

    def connection(self, entrance: Entrance, client: NamedClient | HttpError | None = None) -> asyncio.Protocol:
        return StreamConnection(self, entrance, client)

    async def answer(self, name: str, response: HttpResponse) -> None:
        """Have the door of the request's protocol answer it."""
        if is_text6(name, response.request):
            await self._text6.answer_http(name, response)
        else:
            await self.tlcp.answer_http(name, response)

    def answer_dashboard(self, connection: StreamConnection, request: HttpRequest, dashboard: AsgiApplication) -> None:
        """Have the dashboard, or the administration behind it, answer a request."""
        exchange = Exchange(connection, request)
        connection.answer_by(exchange)
        self._keep(exchange.run(dashboard))

    def probe(self, path: str) -> tuple[int, bytes] | None:
        """Status and body of a probe, if there is one at this path; the API port has the same."""
        if path not in PROBES:
            return None
        status, body = live() if path == "/health" else self._ready()
        return status, json.dumps(body).encode()

    def answer_file(self, connection: StreamConnection, request: HttpRequest, folder: Folder) -> None:
        """Answer a request for a file of the folder of pages."""
        refused = partial(self._trespassed, connection.address)
        response = FileResponse(connection, request, folder, self._disk_threads, refused)
        connection.answer_by(response)
        self._keep(response.run())

    def _keep(self, answer: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(answer)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    def _trespassed(self, address: str, error: HttpError) -> None:
        self._trespasses.occurred(address=address, reason=error.message)

    async def stop(self, say_goodbye: Callable[[], None]) -> None:
        """Stop listening, let `say_goodbye` end the streams, and wait until their last lines are written."""
        self.close()
        say_goodbye()
        self.close_idle()
        self.turns.run()
        await self.wait(STOP_PATIENCE)
        self.abort()
        if self._answers:
            await asyncio.wait(self._answers)
        self._disk_threads.shutdown(wait=False)
        self._trespasses.close()
