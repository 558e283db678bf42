"""What is killed and started again at its ports finds them free, however many connections others have meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.pipeline.real_server import RealServer
from tests.support.object_store import ObjectStore


def test_no_port_of_what_is_killed_is_one_that_the_system_gives_to_connections(tmp_path: Path) -> None:
    least, most = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    with RealServer(tmp_path) as server, ObjectStore() as store:
        ports = {server.port, server.api_port, store.port}
        assert len(ports) == 3
        assert not ports & set(range(least, most + 1))
        server.kill()
        store.kill()
        server.start()
        store.start()
        assert {server.port, server.api_port, store.port} == ports
