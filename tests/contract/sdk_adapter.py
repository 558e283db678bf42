"""The adapters of the contract by the published Python SDK: states, data port and metadata port on the command line.

Runs in the SDK's own environment, so it imports nothing of this repository. Commands on standard input, reports on
standard output, both in JSON lines: see `backends`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from lightstreamer_adapter.interfaces.data import DataProvider, SubscribeError  # type: ignore[import-not-found]
from lightstreamer_adapter.interfaces.metadata import (  # type: ignore[import-not-found]
    AccessError,
    CreditsError,
    ItemsError,
    MetadataProvider,
    Mode,
    NotificationError,
    SchemaError,
)
from lightstreamer_adapter.server import (  # type: ignore[import-not-found]
    DataProviderServer,
    MetadataProviderServer,
)

STATES: dict[str, list[dict[str, str | None]]] = json.loads(sys.argv[1])
DATA_PORT, METADATA_PORT = int(sys.argv[2]), int(sys.argv[3])

_writing = threading.Lock()


def tell(event: str, **details: object) -> None:
    with _writing:
        print(json.dumps({"event": event, **details}), flush=True)


def facts(device: Any) -> dict[str, str]:
    platform = device.mpn_platform_type.name.capitalize()
    return {"platform": platform, "application": device.application_id, "token": device.device_token}


class Data(DataProvider):  # type: ignore[misc]
    def __init__(self) -> None:
        self.listener: Any = None
        self._pumping = False
        self._pumped = threading.Thread()
        self._count = 0
        # Whose snapshot has been sent: nothing else of an item may come before it.
        self._live: set[str] = set()

    def initialize(self, parameters: dict[str, str], config_file: str | None = None) -> None:
        tell("init", parameters=parameters)

    def set_listener(self, event_listener: Any) -> None:
        self.listener = event_listener

    def issnapshot_available(self, item_name: str) -> bool:
        return not item_name.startswith("plain")

    def subscribe(self, item_name: str) -> None:
        tell("subscribe", item=item_name)
        if item_name == "refused":
            raise SubscribeError("no such item")
        if item_name == "broken":
            raise ValueError("a mistake")
        if item_name in STATES:
            for event in STATES[item_name]:
                self.listener.update(item_name, event, True)
            self.listener.end_of_snapshot(item_name)
        self._live.add(item_name)

    def unsubscribe(self, item_name: str) -> None:
        self._live.discard(item_name)
        tell("unsubscribe", item=item_name)

    def obey(self, command: dict[str, Any]) -> None:
        if command["do"] == "state":
            STATES[command["item"]] = command["events"]
            tell("state", item=command["item"])
        elif command["do"] == "update":
            self.listener.update(command["item"], command["event"], command["snapshot"])
        elif command["do"] == "end":
            self.listener.end_of_snapshot(command["item"])
        elif command["do"] == "clear":
            self.listener.clear_snapshot(command["item"])
        elif command["do"] == "pump":
            self._pumping = True
            self._pumped = threading.Thread(target=self._pump, args=(command["items"],))
            self._pumped.start()
        elif command["do"] == "halt":
            self._pumping = False
            self._pumped.join()
            tell("halted", count=self._count)

    def _pump(self, items: list[str]) -> None:
        while self._pumping:
            self._count += 1
            for item in filter(self._live.__contains__, items):
                self.listener.update(item, {"n": str(self._count)}, False)
            time.sleep(0.001)


class Metadata(MetadataProvider):  # type: ignore[misc]
    def initialize(self, parameters: dict[str, str], config_file: str | None = None) -> None:
        tell("metadata init", parameters=parameters)

    def notify_user(self, user: str | None, password: str | None, http_headers: dict[str, str]) -> None:
        tell("user", user=user, password=password, request=http_headers["REQUEST_ID"])
        if user == "nobody":
            raise AccessError("no access")
        if user == "poor":
            raise CreditsError(-7, "no credit", "pay first")
        if user == "crash":
            raise ValueError("a mistake")

    def get_allowed_max_bandwidth(self, user: str | None) -> float:
        return 10.0 if user == "slow" else 0.0

    def wants_tables_notification(self, user: str | None) -> bool:
        return user != "quiet"

    def notify_new_session(self, user: str | None, session_id: str, client_context: dict[str, str]) -> None:
        tell("session", user=user, session=session_id, context=client_context)
        if user == "late":
            raise CreditsError(-8, "closed", "too late")

    def notify_session_close(self, session_id: str) -> None:
        tell("session closed", session=session_id)

    def get_items(self, user: str | None, session_id: str, group: str) -> list[str]:
        if group == "none":
            raise ItemsError("no such group")
        return ["one", "two"] if group == "both" else group.split()

    def get_schema(self, user: str | None, session_id: str, group: str, schema: str) -> list[str]:
        if schema == "none":
            raise SchemaError("no such schema")
        return schema.split()

    def mode_may_be_allowed(self, item: str, mode: Mode) -> bool:
        return item != "rawonly" or mode == Mode.RAW

    def get_distinct_snapshot_length(self, item: str) -> int:
        return 3

    def get_allowed_max_item_frequency(self, user: str | None, item: str) -> float:
        return 2.0 if item == "limited" else 0.0

    def notify_new_tables(self, user: str | None, session_id: str, tables: list[Any]) -> None:
        self._tell("tables", session_id, tables)
        if tables[0].group == "forbidden":
            raise CreditsError(-9, "no", "not for you")

    def notify_tables_close(self, session_id: str, tables: list[Any]) -> None:
        self._tell("tables closed", session_id, tables)

    def _tell(self, event: str, session_id: str, tables: list[Any]) -> None:
        for table in tables:
            tell(event, session=session_id, number=table.win_index, group=table.group)

    def notify_mpn_device_access(self, user: str | None, session_id: str, device: Any) -> None:
        tell("device", user=user, session=session_id, **facts(device))
        if device.application_id == "poor":
            raise CreditsError(-11, "no", "no devices")
        if device.application_id == "unheard":
            raise NotificationError("not heard")
        if device.application_id == "crash":
            raise ValueError("a mistake")

    def notify_mpn_device_token_change(self, user: str | None, session_id: str, device: Any, new_token: str) -> None:
        tell("new token", session=session_id, new=new_token, **facts(device))
        if new_token == "stolen":
            raise CreditsError(-12, "no", "not yours")

    def notify_mpn_subscription_activation(self, user: str | None, session_id: str, table: Any, push: Any) -> None:
        given = {"group": table.group, "schema": table.schema, "mode": table.mode.name, "trigger": push.trigger}
        tell("push", session=session_id, format=push.notification_format, **given, **facts(push.device))
        if table.group == "silent":
            raise CreditsError(-13, "no", "not by push")

    def notify_user_message(self, user: str | None, session_id: str, message: str) -> None:
        tell("message", session=session_id, text=message)
        if message == "rude":
            raise CreditsError(-3, "no", "mind your words")
        if message == "unheard":
            raise NotificationError("not heard")
        if message == "crash":
            raise ValueError("a mistake")


def main() -> None:
    data = Data()
    servers = [
        MetadataProviderServer(Metadata(), ("127.0.0.1", METADATA_PORT), keep_alive=1),
        DataProviderServer(data, ("127.0.0.1", DATA_PORT), keep_alive=1),
    ]
    for server in servers:
        server.remote_user, server.remote_password = "ru", "p w"
        server.start()
    # The main thread stays: without it the SDK hears no more.
    for line in sys.stdin:
        data.obey(json.loads(line))


main()
