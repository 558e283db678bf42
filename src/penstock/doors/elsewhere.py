"""Requests about sessions of other workers of this machine: which those are, and how one of them is passed on.

Whole connections are handed over in `penstock.transport`; here are only the questions that both text protocols have.
"""

from __future__ import annotations

from urllib.parse import quote

from penstock.doors.stream.link import StreamLink
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.identity import node_of
from penstock.kernel.kernel import FOREIGN, UNKNOWN
from penstock.transport.neighbours import Neighbours
from penstock.transport.parcel import Parcel


class SessionElsewhere(Exception):
    """The session is one of this worker, which is there."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker


def refusal_of(neighbours: Neighbours, worker: str | None) -> Refusal:
    """What a client is told if that worker does not answer.

    A worker of this server that does not has lost its sessions: clients are to open new ones here. Those who are told
    that a session belongs to another server give up.
    """
    if worker is not None and neighbours.are_family(worker):
        return Refusal(Reason.UNKNOWN_SESSION, UNKNOWN)
    return Refusal(Reason.FOREIGN_SESSION, FOREIGN)


def owner(neighbours: Neighbours | None, session_id: str | None) -> str | None:
    """The worker that has made this identifier, if it is another one than this, and there."""
    if neighbours is None or not session_id:
        return None
    worker = node_of(session_id)
    return worker if worker is not None and neighbours.has(worker) else None


async def passed_on(
    neighbours: Neighbours, worker: str, link: StreamLink, name: str, query: str, line: str
) -> tuple[int, bytes] | None:
    """Status and body of what another worker answers to one request of a client; None if it does not."""
    # Any path will do that the listener serves.
    path = f"{quote(link.entrance.paths[0].rstrip('/'))}/lightstreamer/{name}.txt"
    body = line.encode()
    request = f"POST {path}?{query} HTTP/1.0\r\ncontent-length: {len(body)}\r\n\r\n".encode("latin-1") + body
    parcel = Parcel(link.entrance.name, link.address, link.client_port, link.principal)
    answer = await neighbours.ask(worker, parcel, request)
    head, separator, found = (answer or b"").partition(b"\r\n\r\n")
    return (int(head.split(b" ", 2)[1]), found) if separator else None
