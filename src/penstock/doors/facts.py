"""What metadata adapters are told about a client that asks for a session or sends a request to the API port.

Which library it uses is found in `libraries`; what becomes of the facts, in `penstock.adapters`.
"""

from __future__ import annotations

import secrets

from penstock.doors.libraries import library
from penstock.doors.stream.link import StreamLink
from penstock.kernel.headers import KeptHeaders
from penstock.kernel.ports import ClientFacts

# Random bytes in a request's identifier: enough to be unique, even after a restart. Each session keeps one.
REQUEST_ID_BYTES = 9


def facts_of(link: StreamLink, client_id: str | None) -> ClientFacts:
    """Facts about a client of the streaming port; `client_id` is its LS_cid."""
    found = library(client_id)
    return ClientFacts(
        link.address,
        link.entrance.secure,
        KeptHeaders.of(link.headers),
        link.client_port,
        link.principal,
        request_id=request_id(),
        listener=link.entrance.name,
        library=found.name,
        library_version=found.version,
    )


def request_id() -> str:
    """An identifier for one request of a client."""
    return secrets.token_urlsafe(REQUEST_ID_BYTES)
