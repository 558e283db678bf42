"""The simulated devices against a server process: controllers are seen through TLEX, things over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.client import Client, ItemUpdate, connect
from penstock.client.errors import ClientError
from penstock.config import Config
from penstock.config.schema.server import DemoSection, ServerSection
from penstock.config.schema.tlex import TlexSection
from penstock.devices.company import Company, Devices
from penstock.devices.controllers import DOMAIN
from penstock.devices.intersection import TOWN
from tests.support.process import ServerProcess
from tests.support.waiting import wait_until

TRAFFIC = {"demo.traffic": True, "tlex.enabled": True, "tlex.port": 0}

# Seconds for anything, on a machine with other work.
PATIENCE = 45.0


def devices_of(process: ServerProcess) -> Devices:
    return Devices(
        Config(
            server=ServerSection(data_dir=str(process.directory / "data")),
            tlex=TlexSection(enabled=True),
            demo=DemoSection(traffic=True),
        )
    )


def api_of(process: ServerProcess) -> str:
    return f"http://{process.host}:{process.api_port}"


async def payload_of(client: Client, identifier: str) -> ItemUpdate:
    item = f"payloads/{DOMAIN}/{identifier}"
    async for update in client.subscribe(item, "type payload", mode="DISTINCT", data_adapter="LIGHTS"):
        return update
    raise AssertionError("the subscription ended")


async def all_payloads(process: ServerProcess) -> list[ItemUpdate]:
    async with connect(process.url, adapter_set="WELCOME", proxy=None) as client:
        return await asyncio.gather(*[payload_of(client, each.identifier) for each in TOWN])


def get(process: ServerProcess, path: str) -> object:
    login = base64.b64encode(b"ditto:ditto").decode()
    request = urllib.request.Request(
        f"{api_of(process)}/api/2/things/{path}", headers={"Authorization": f"Basic {login}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError:
        return None


@pytest.mark.config(TRAFFIC)
def test_controllers_and_things_report_and_come_back_after_a_restart(process: ServerProcess) -> None:
    devices = devices_of(process)
    company = Company([devices])
    company.start(api_of(process))
    try:
        updates = asyncio.run(asyncio.wait_for(all_payloads(process), PATIENCE))
        names = [json.loads(base64.b64decode(update.values["payload"] or ""))["name"] for update in updates]
        assert names == [each.name for each in TOWN]
        assert {update.values["type"] for update in updates} == {"02"}
        turbine = "penstock.demo:turbine/features/gate/properties/percent"
        wait_until(lambda: get(process, turbine) is not None, "the turbine has reported")
        assert get(process, "penstock.demo:lamp/features/light/properties/on") is False
        process.kill()
        process.start()
        assert len(asyncio.run(asyncio.wait_for(all_payloads(process), PATIENCE))) == len(TOWN)
    finally:
        company.stop()
    assert "ERROR" not in process.log


@pytest.mark.config({"demo.traffic": False, "tlex.enabled": True, "tlex.port": 0})
def test_a_hub_is_not_shown_by_the_demo_unless_asked_for(process: ServerProcess) -> None:
    with pytest.raises(ClientError, match="Data Adapter not found"):
        asyncio.run(asyncio.wait_for(all_payloads(process), PATIENCE))


def test_devices_that_find_nothing_to_do_end_at_once(tmp_path: Path) -> None:
    config = Config(server=ServerSection(data_dir=str(tmp_path)))
    devices = Devices(replace(config, ditto=replace(config.ditto, enabled=False)))
    devices.start("http://127.0.0.1:1")
    devices.stop()


def test_devices_that_were_never_started_can_be_stopped() -> None:
    Devices(Config()).stop()
