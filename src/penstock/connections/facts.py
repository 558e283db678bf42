"""What placeholders stand for: facts about an envelope, its headers, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.kinds import EntityGroup


class EnvelopeFacts:
    """`headers` have names in lower case; `envelope` is None while a message is not mapped yet."""

    def __init__(
        self, connection: str, headers: Mapping[str, str], address: str, envelope: Envelope | None, now_micros: int
    ) -> None:
        self.connection = connection
        self.headers = headers
        self.address = address
        self.envelope = envelope
        self.now_micros = now_micros

    def resolve(self, prefix: str, name: str) -> str | None:
        if prefix == "header":
            return self.headers.get(name.lower())
        if prefix == "source":
            return self.address
        if prefix == "connection":
            return self.connection
        if prefix == "time":
            if name == "now_epoch_millis":
                return str(self.now_micros // 1000)
            then = datetime.fromtimestamp(self.now_micros / 1_000_000, UTC)
            return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        envelope = self.envelope
        if envelope is None:
            return None
        topic = envelope.topic
        if prefix in ("thing", "policy", "entity"):
            wanted = {"thing": EntityGroup.THINGS, "policy": EntityGroup.POLICIES}.get(prefix)
            if wanted is not None and topic.group is not wanted:
                return None
            return {"id": topic.entity, "namespace": topic.namespace, "name": topic.name}[name]
        if prefix == "feature":
            parts = envelope.path.split("/")
            return parts[2] if len(parts) > 2 and parts[1] == "features" else None
        if prefix == "resource":
            return envelope.path if name == "path" else str(topic.group).rstrip("s")
        return {
            "full": str(topic),
            "namespace": topic.namespace,
            "entityName": topic.name,
            "group": str(topic.group),
            "channel": None if topic.channel is None else str(topic.channel),
            "criterion": str(topic.criterion),
            "action": topic.action,
            "subject": topic.subject,
            "action-subject": topic.action or topic.subject,
        }[name]
