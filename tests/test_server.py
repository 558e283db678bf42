"""A server as its list of services: what is open after a failed start, and that no service is left out of the list."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import socket
from contextlib import closing
from pathlib import Path

import pytest

import penstock.services
from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.cluster.local import LocalHub
from penstock.config import load
from penstock.server import Server
from penstock.services.cluster.hub import HubPart
from penstock.services.cluster.link import HubLinkService
from penstock.services.cluster.tlex import TlexAnnexService
from penstock.services.errors import StartError
from penstock.services.service import Service


class Noted(DataAdapter):
    quick = True

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        assert isinstance(port, int)
        return port


@pytest.mark.parametrize("taken_by", ["api", "stream", "tlex"])
def test_a_server_whose_port_is_taken_leaves_nothing_open(tmp_path: Path, taken_by: str) -> None:
    adapter = Noted()
    ports = {"api.port": free_port(), "stream.port": free_port(), "tlex.port": free_port()}

    async def main() -> None:
        config = load(None, {**ports, "tlex.enabled": True, "demo.enabled": False, "log.level": "error"}).config
        server = Server(config, [AdapterSet("SET", MetadataAdapter(), {"ADAPTER": adapter})], None, tmp_path)
        with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{ports[f'{taken_by}.port']}") as failure:
            await server.start()
        assert failure.value.__notes__ == [f"raised by the service {taken_by} in its phase open"]
        assert server.gatherer is None
        assert not server.sets.running

    with closing(socket.create_server(("127.0.0.1", ports[f"{taken_by}.port"]))):
        asyncio.run(main())
        for key in ports.keys() - {f"{taken_by}.port"}:
            # Nobody listens there any more.
            socket.create_server(("127.0.0.1", ports[key])).close()
    assert adapter.calls == ["start", "stop"]
    # The journal and the store can be opened again.
    asyncio.run(_start_and_stop(tmp_path))


async def _start_and_stop(data_dir: Path) -> None:
    settings = {"stream.port": 0, "api.port": 0, "tlex.enabled": True, "tlex.port": 0, "demo.enabled": False}
    server = Server(load(None, {**settings, "log.level": "error"}).config, [], None, data_dir)
    await server.start()
    await server.stop()


def test_every_service_is_in_the_list_of_the_server_once() -> None:
    for module in pkgutil.iter_modules(penstock.services.__path__, "penstock.services."):
        importlib.import_module(module.name)

    async def main() -> list[Service]:
        # The one of hubs among them.
        config = load(None, {"log.level": "error"}).config
        return Server(config, [], hub=HubPart(LocalHub(Path()), 1))._stack.services

    listed = [type(service) for service in asyncio.run(main())]
    # Tests have services of their own, and edges have two that no other server has.
    others = ("tests.", HubLinkService.__module__, TlexAnnexService.__module__)
    made = [each for each in Service.__subclasses__() if not each.__module__.startswith(others)]
    assert sorted(listed, key=str) == sorted(made, key=str)
    assert len({service.name for service in listed}) == len(listed)
