"""The adapters of the contract in this process; their twins are `sdk_adapter.py` and `node/adapter.cjs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from penstock.adapters import ClientFacts, DataAdapter, MetadataAdapter, Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import Admission, DeviceFacts, PushFacts, SessionFacts, Statistics, SubscriptionFacts

Tell = Callable[[dict[str, Any]], None]


class DirectData(DataAdapter):
    """Publishes what it is told."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._states: dict[str, list[dict[str, str | None]]] = {}

    def has_snapshot(self, item: str) -> bool:
        return not item.startswith("plain")

    def subscribe(self, item: str) -> None:
        self._tell({"event": "subscribe", "item": item})
        if item == "refused":
            raise Refusal(Reason.GROUP, "no such item")
        if item == "broken":
            raise ValueError("a mistake")
        if item in self._states:
            for event in self._states[item]:
                self.update(item, event, snapshot=True)
            self.end_of_snapshot(item)

    def unsubscribe(self, item: str) -> None:
        self._tell({"event": "unsubscribe", "item": item})

    def obey(self, command: dict[str, Any]) -> None:
        match command["do"]:
            case "state":
                self._states[command["item"]] = command["events"]
            case "update":
                self.update(command["item"], command["event"], command["snapshot"])
            case "end":
                self.end_of_snapshot(command["item"])
            case "clear":
                self.clear_snapshot(command["item"])


class DirectMetadata(MetadataAdapter):
    """Decides by names."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        self._tell({"event": "user", "user": user, "password": password, "request": client.request_id})
        if user == "nobody":
            raise Refusal(Reason.CREDENTIALS, "User/password check failed")
        if user == "poor":
            raise Refusal(Reason.CREDENTIALS, "pay first", -7)
        if user == "crash":
            raise ValueError("a mistake")
        return Admission(10.0 if user == "slow" else None, follows_subscriptions=user != "quiet")

    def new_session(self, session: SessionFacts) -> None:
        facts = {"event": "session", "user": session.user, "session": session.id}
        self._tell({**facts, "context": _context(session.client)})
        if session.user == "late":
            raise Refusal(Reason.CREDENTIALS, "too late", -8)

    def session_closed(self, session: SessionFacts) -> None:
        self._tell({"event": "session closed", "session": session.id})

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:
        if group == "none":
            raise Refusal(Reason.GROUP, "no such group")
        return ["one", "two"] if group == "both" else group.split()

    def fields(self, session: SessionFacts, data_adapter: str, group: str, schema: str) -> Sequence[str]:
        if schema == "none":
            raise Refusal(Reason.SCHEMA, "no such schema")
        return schema.split()

    def allows_mode(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> bool:
        return item != "rawonly" or mode is Mode.RAW

    def max_frequency(self, session: SessionFacts, data_adapter: str, item: str) -> float | None:
        return 2.0 if item == "limited" else None

    def snapshot_length(self, data_adapter: str, item: str) -> int:
        return 3

    def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        self._tell_tables("tables", session, subscription)
        if subscription.group == "forbidden":
            raise Refusal(Reason.AUTHORITY_ERROR, "not for you", -9)

    def unsubscribed(
        self, session: SessionFacts, subscription: SubscriptionFacts, statistics: Sequence[Statistics]
    ) -> None:
        self._tell_tables("tables closed", session, subscription)

    def _tell_tables(self, event: str, session: SessionFacts, table: SubscriptionFacts) -> None:
        self._tell({"event": event, "session": session.id, "number": table.number, "group": table.group})

    def register_device(self, session: SessionFacts, device: DeviceFacts) -> None:
        self._tell({"event": "device", "user": session.user, "session": session.id, **asdict(device)})
        if device.application == "poor":
            raise Refusal(Reason.APPLICATION, "no devices", -11)
        if device.application == "unheard":
            raise Refusal(Reason.AUTHORITY_ERROR, "not heard")
        if device.application == "crash":
            raise ValueError("a mistake")

    def change_device_token(self, session: SessionFacts, device: DeviceFacts, new_token: str) -> None:
        facts = {"application": device.application, "token": device.token, "new": new_token}
        self._tell({"event": "new token", "session": session.id, **facts})
        if new_token == "stolen":
            raise Refusal(Reason.APPLICATION, "not yours", -12)

    def activate_push(self, session: SessionFacts, device: DeviceFacts, subscription: PushFacts) -> None:
        facts = {name: getattr(subscription, name) for name in ("group", "schema", "trigger", "format")}
        mode = subscription.mode.value
        self._tell({"event": "push", "session": session.id, "mode": mode, **asdict(device), **facts})
        if subscription.group == "silent":
            raise Refusal(Reason.AUTHORITY_ERROR, "not by push", -13)

    def message(self, session: SessionFacts, text: str) -> None:
        self._tell({"event": "message", "session": session.id, "text": text})
        if text == "rude":
            raise Refusal(Reason.MESSAGE_FAILED, "mind your words", -3)
        if text == "unheard":
            raise Refusal(Reason.MESSAGE_FAILED, "not heard")
        if text == "crash":
            raise ValueError("a mistake")


def _context(client: ClientFacts) -> dict[str, str | None]:
    """The facts by the names that they have in the other processes."""
    return {
        "REMOTE_IP": client.address,
        "REMOTE_PORT": str(client.port),
        "USER_AGENT": client.headers.get("user-agent"),
        "FORWARDING_INFO": client.headers.get("x-forwarded-for"),
        "LOCAL_SERVER": client.listener,
        "CLIENT_TYPE": client.library,
        "CLIENT_VERSION": client.library_version,
        "REQUEST_ID": client.request_id,
    }
