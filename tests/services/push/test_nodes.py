"""Two servers with one database: each device is served by one of them, and goes to the other when that one is asked."""

from __future__ import annotations

from pathlib import Path

from tests.services.push.stage import PushServer


def servers(directory: Path) -> list[PushServer]:
    shared = {"push.store": f"sqlite:///{directory}/shared.db", "push.lease_seconds": 3}
    found = []
    for name in ("one", "two"):
        (directory / name).mkdir()
        found.append(PushServer(directory / name, shared))
    return found


def test_a_device_that_registers_at_another_server_is_served_there(tmp_path: Path) -> None:
    one, two = servers(tmp_path)
    with one, two:
        with one.client() as client:
            device = client.register()
            client.activate()
        with two.client() as client:
            assert client.register() == device
        assert one.call(lambda: one.engine.memory.registry.device_count) == 0
        for server in (one, two):
            server.update("item1", x="1")
        two.provider.wait(1)
        assert one.provider.sent == []


def test_devices_of_a_server_that_has_stopped_are_taken_over(tmp_path: Path) -> None:
    one, two = servers(tmp_path)
    with one, one.client() as client:
        device = client.register()
        client.activate(PN_trigger="Double.parseDouble($[1]) > 1")
    with two:
        two.wait(lambda: two.engine.memory.registry.device(device) is not None)
        two.update("item1", x="2")
        two.provider.wait(1)
