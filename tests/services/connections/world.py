"""A server process with twins and an administrator, requests to it, and documents of connections."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support.administration import write_users
from tests.support.process import ServerProcess
from tests.support.waiting import wait_until

DEVICE = "integration:device"


class TwinServer(ServerProcess):
    """With the demo's user for twins, `root` for connections, and a policy that lets the connection do everything."""

    def __init__(self, directory: Path, **more: object) -> None:
        write_users(directory / "users")
        super().__init__(directory, {"demo.enabled": True, "admin.users": str(directory / "users"), **more})

    def start(self) -> None:
        super().start()
        address = f"http://127.0.0.1:{self.api_port}/api/2"
        self.connections = f"{address}/connections"
        self.twins = httpx.Client(base_url=address, auth=("ditto", "ditto"), timeout=60.0)
        self.operator = httpx.Client(base_url=self.connections, auth=("root", "root-secret"), timeout=60.0)

    def wait(self) -> int:
        self.twins.close()
        self.operator.close()
        return super().wait()

    def make_policy(self, name: str = "plant:all") -> None:
        entry = {
            "subjects": {subject: {"type": "test"} for subject in (DEVICE, "nginx:ditto")},
            "resources": {
                f"{kind}:/": {"grant": ["READ", "WRITE"], "revoke": []} for kind in ("thing", "policy", "message")
            },
        }
        answer = self.twins.put(f"/policies/{name}", json={"entries": {"all": entry}})
        assert answer.status_code in (201, 204), answer.text

    def make_thing(self, id: str, **content: object) -> None:
        answer = self.twins.put(f"/things/{id}", json={"policyId": "plant:all", **content})
        assert answer.status_code in (201, 204), answer.text

    def connect(self, id: str, document: Mapping[str, Any], *, wait: bool = True) -> None:
        answer = self.operator.put(f"/{id}", json=document)
        assert answer.status_code in (201, 204), answer.text
        if wait:
            self.wait_open(id)

    def wait_open(self, id: str) -> None:
        wait_until(lambda: self.status(id)["liveStatus"] == "open", f"{self.status(id)}, {self.logs(id)}")

    def status(self, id: str) -> Any:
        return self.operator.get(f"/{id}/status").json()

    def logs(self, id: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.operator.get(f"/{id}/logs").json()["connectionLogs"]
        return found

    def metrics(self, id: str) -> Any:
        return self.operator.get(f"/{id}/metrics").json()["connectionMetrics"]

    def thing(self, path: str) -> Any:
        answer = self.twins.get(f"/things/{path}")
        return answer.json() if answer.status_code == 200 else None

    def wait_for(self, path: str, condition: Callable[[Any], object], what: str = "") -> None:
        wait_until(lambda: condition(self.thing(path)), what or f"{path} of the twin")

    def history(self, id: str) -> list[Any]:
        """All events of a thing."""
        answer = self.twins.get(
            f"/things/{id}", params={"from-historical-revision": 1}, headers={"accept": "text/event-stream"}
        )
        lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:{")]
        return [json.loads(line) for line in lines]


def mqtt(address: str, **more: Any) -> dict[str, Any]:
    return {
        "connectionType": "mqtt-5",
        "uri": f"tcp://{address}",
        "sources": [],
        "targets": [],
        **more,
    }


def source(*addresses: str, **more: Any) -> dict[str, Any]:
    return {"addresses": list(addresses), "authorizationContext": [DEVICE], **more}


def target(address: str, *topics: str, **more: Any) -> dict[str, Any]:
    wanted = list(topics) or ["_/_/things/twin/events"]
    return {"address": address, "topics": wanted, "authorizationContext": [DEVICE], **more}


def modify(thing: str, path: str, value: object, **headers: object) -> bytes:
    namespace, _, name = thing.partition(":")
    topic = f"{namespace}/{name}/things/twin/commands/modify"
    return json.dumps({"topic": topic, "path": path, "headers": headers, "value": value}).encode()
