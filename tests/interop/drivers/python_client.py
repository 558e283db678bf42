# ruff: noqa: N802
"""The published Python client, any generation, driven by JSON lines: commands on standard input, events on standard
output.

Runs in the client's own environment, so it imports nothing of this repository. `node/client.cjs` is its twin; what
commands and events there are is told in `published.py`, which talks to both.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from lightstreamer.client import (
    ClientListener,
    ClientMessageListener,
    LightstreamerClient,
    Subscription,
    SubscriptionListener,
)

# Properties of the connection that the server decides.
REPORTED = {
    "sessionId": ("connectionDetails", "getSessionId"),
    "serverSocketName": ("connectionDetails", "getServerSocketName"),
    "clientIp": ("connectionDetails", "getClientIp"),
    "realMaxBandwidth": ("connectionOptions", "getRealMaxBandwidth"),
    "keepaliveInterval": ("connectionOptions", "getKeepaliveInterval"),
}

output = threading.Lock()


def emit(client: str, event: str, **details: object) -> None:
    line = json.dumps({"client": client, "event": event, **details})
    with output:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class Connection(ClientListener):  # type: ignore[misc]
    def __init__(self, name: str, client: Any) -> None:
        self.name = name
        self.client = client
        self.subscriptions: dict[str, Any] = {}

    def onStatusChange(self, status: str) -> None:
        emit(self.name, "status", status=status, session=self.client.connectionDetails.getSessionId())

    def onServerError(self, code: int, message: str) -> None:
        emit(self.name, "server error", code=code, message=message)

    def onPropertyChange(self, property: str) -> None:
        if property in REPORTED:
            owner, getter = REPORTED[property]
            emit(self.name, "property", name=property, value=getattr(getattr(self.client, owner), getter)())


class Updates(SubscriptionListener):  # type: ignore[misc]
    def __init__(self, name: str, subscription: str) -> None:
        self.name = name
        self.subscription = subscription

    def emit(self, event: str, **details: object) -> None:
        emit(self.name, event, subscription=self.subscription, **details)

    def onSubscription(self) -> None:
        self.emit("subscribed")

    def onUnsubscription(self) -> None:
        self.emit("unsubscribed")

    def onSubscriptionError(self, code: int, message: str) -> None:
        self.emit("subscription error", code=code, message=message)

    def onItemUpdate(self, update: Any) -> None:
        self.emit(
            "update",
            item=update.getItemName(),
            snapshot=update.isSnapshot(),
            values=dict(update.getFields()),
            changed=dict(update.getChangedFields()),
        )

    def onEndOfSnapshot(self, itemName: str, itemPos: int) -> None:  # noqa: N803
        self.emit("end of snapshot", item=itemName)

    def onItemLostUpdates(self, itemName: str, itemPos: int, lostUpdates: int) -> None:  # noqa: N803
        self.emit("lost updates", item=itemName, count=lostUpdates)

    def onCommandSecondLevelSubscriptionError(self, code: int, message: str, key: str) -> None:
        self.emit("second level error", key=key, code=code, message=message)

    def onCommandSecondLevelItemLostUpdates(self, lostUpdates: int, key: str) -> None:  # noqa: N803
        self.emit("second level lost updates", key=key, count=lostUpdates)

    def onRealMaxFrequency(self, frequency: str | None) -> None:
        self.emit("max frequency", value=frequency)


class Outcome(ClientMessageListener):  # type: ignore[misc]
    def __init__(self, name: str) -> None:
        self.name = name

    def emit(self, text: str, outcome: str, **details: object) -> None:
        emit(self.name, "message", text=text, outcome=outcome, **details)

    # Generations before the second hand over no response.
    def onProcessed(self, msg: str, response: str | None = None) -> None:
        self.emit(msg, "processed", response=response)

    def onDeny(self, msg: str, code: int, error: str) -> None:
        self.emit(msg, "denied", code=code, message=error)

    def onAbort(self, msg: str, sentOnNetwork: bool) -> None:  # noqa: N803
        self.emit(msg, "aborted", sent=sentOnNetwork)

    def onDiscarded(self, msg: str) -> None:
        self.emit(msg, "discarded")

    def onError(self, msg: str) -> None:
        self.emit(msg, "failed")


connections: dict[str, Connection] = {}


def connect(
    name: str, address: str, adapter_set: str, transport: str | None, user: str | None, options: dict[str, Any]
) -> None:
    client = LightstreamerClient(address, adapter_set)
    if transport is not None:
        client.connectionOptions.setForcedTransport(transport)
    if user is not None:
        client.connectionDetails.setUser(user)
    for option, value in options.items():
        getattr(client.connectionOptions, "set" + option)(value)
    connections[name] = Connection(name, client)
    client.addListener(connections[name])
    client.connect()


def subscribe(
    name: str,
    subscription: str,
    mode: str,
    items: list[str],
    fields: list[str],
    adapter: str,
    snapshot: str | None,
    second_level: dict[str, Any] | None,
) -> None:
    made = connections[name].subscriptions[subscription] = Subscription(mode, items, fields)
    made.setDataAdapter(adapter)
    if snapshot is not None:
        made.setRequestedSnapshot(snapshot)
    if second_level is not None:
        made.setCommandSecondLevelDataAdapter(second_level["adapter"])
        made.setCommandSecondLevelFields(second_level["fields"])
    made.addListener(Updates(name, subscription))
    connections[name].client.subscribe(made)


def limit_frequency(name: str, subscription: str, frequency: str) -> None:
    connections[name].subscriptions[subscription].setRequestedMaxFrequency(frequency)


def unsubscribe(name: str, subscription: str) -> None:
    connections[name].client.unsubscribe(connections[name].subscriptions.pop(subscription))


def send(name: str, text: str, sequence: str | None, delay_timeout: int | None, enqueue: bool) -> None:
    connections[name].client.sendMessage(text, sequence, delay_timeout, Outcome(name), enqueue)


def limit_bandwidth(name: str, bandwidth: str) -> None:
    connections[name].client.connectionOptions.setRequestedMaxBandwidth(bandwidth)


def disconnect(name: str) -> None:
    connections.pop(name).client.disconnect()


COMMANDS = {
    function.__name__: function
    for function in (connect, subscribe, limit_frequency, unsubscribe, send, limit_bandwidth, disconnect)
}


def main() -> None:
    emit("", "ready", version=LightstreamerClient.LIB_VERSION)
    for line in sys.stdin:
        command = json.loads(line)
        name = command["client"]
        try:
            COMMANDS[command.pop("do")](name, **{key: value for key, value in command.items() if key != "client"})
        except Exception as error:
            emit(name, "refused", reason=repr(error))


if __name__ == "__main__":
    main()
