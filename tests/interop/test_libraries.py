"""The published clients are recognised by what they really send."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop.published import CLIENTS, PublishedClient, each_client
from tests.support.background import BackgroundServer

pytestmark = pytest.mark.interop

NAMES = {"python": "python_client", "node": "nodejs_client", "java": "javase_client", "web": "javascript_client"}


@each_client
def test_adapters_are_told_which_library_a_client_uses(
    server: BackgroundServer, open_client: Callable[[str], PublishedClient], name: str
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", "WS-STREAMING")
    client.wait_for("status", status="CONNECTED:WS-STREAMING")
    facts = server.metadata.clients[0]
    assert facts.library == NAMES[name.partition("-")[0]]
    assert facts.library_version is not None
    assert facts.library_version.startswith(f"{CLIENTS[name].version} build ")
