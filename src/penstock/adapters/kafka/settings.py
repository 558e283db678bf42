"""What the adapter is configured with, checked before any connection is made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Required

from penstock.adapters.brokers.adapter import RecordParameters

# Seconds that the brokers have for their first answer, and for each later one.
TIMEOUT = 10.0

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")

# What this adapter decides itself, and what would change how records are read.
_OURS = frozenset(
    {
        *("bootstrap.servers", "metadata.broker.list", "group.id", "auto.offset.reset", "enable.auto.commit"),
        *("enable.auto.offset.store", "enable.partition.eof", "logger", "error_cb", "stats_cb", "throttle_cb"),
        *("on_commit", "oauth_cb", "plugin.library.paths"),
    }
)


class KafkaParameters(RecordParameters, total=False):
    """As they come from a TOML table."""

    servers: Required[str | Sequence[str]]
    # Names, and patterns that begin with ^.
    topics: Required[str | Sequence[str]]
    # latest, earliest, or a time.
    start: str
    # Those with the same name share the partitions; empty: each server reads all.
    group: str
    # How long the start of the server waits for what came before.
    catch_up_seconds: float
    # Options of librdkafka, and a file with more of them: one in each line, NAME=VALUE.
    options: Mapping[str, str | int | float | bool]
    options_file: Path | None
    registry: str
    registry_user: str | None
    registry_password: str | None
    registry_ca_file: Path | None


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The same, checked, as far as it is about the connection."""

    servers: str
    topics: tuple[str, ...]
    group: str
    # Milliseconds since 1970; or one of the two words.
    start: int | str
    catch_up: float
    options: Mapping[str, Any]

    @classmethod
    def of(cls, parameters: KafkaParameters) -> KafkaSettings:
        """Raises ValueError with the parameter, its value and what is allowed."""
        group = parameters.get("group", "")
        start = _start(parameters.get("start", "latest"))
        if group and isinstance(start, int):
            raise ValueError(f"start = {parameters['start']!r}: expected latest or earliest, because group is set")
        catch_up = parameters.get("catch_up_seconds", 60.0)
        if catch_up < 0:
            raise ValueError(f"catch_up_seconds = {catch_up!r}: expected 0 or more")
        options = _options(parameters.get("options", {}), parameters.get("options_file"))
        return cls(_servers(parameters["servers"]), _topics(parameters["topics"]), group, start, catch_up, options)

    @property
    def config(self) -> dict[str, Any]:
        """For librdkafka."""
        return {
            # Only what producers have committed.
            "isolation.level": "read_committed",
            # A broker that went away is tried again within this, in milliseconds.
            "reconnect.backoff.max.ms": 2_000,
            **self.options,
            "bootstrap.servers": self.servers,
            "enable.auto.commit": bool(self.group),
            "enable.auto.offset.store": False,
            # Where retention has dropped what would come next, the oldest that there is.
            "auto.offset.reset": str(self.start) if self.group else "earliest",
        }


@dataclass(frozen=True, slots=True)
class OutletSettings:
    """What is written to a topic: the same connection, and which events of the journal."""

    servers: str
    topic: str
    entities: tuple[str, ...]
    # Where the first one begins: latest or earliest.
    start: str
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls, servers: str, topic: str, entities: tuple[str, ...], start: str, options_file: Path | None
    ) -> OutletSettings:
        """Raises ValueError with the key, its value and what is allowed."""
        if topic.startswith("^"):
            raise ValueError(f"topic = {topic!r}: expected the name of one topic")
        try:
            _topics(topic)
        except ValueError:
            raise ValueError(f"topic = {topic!r}: expected a name of letters, digits, . _ -") from None
        return cls(_servers(servers), topic, entities, start, _options({}, options_file))

    @property
    def config(self) -> dict[str, Any]:
        """For librdkafka."""
        return {**self.options, "bootstrap.servers": self.servers}


def _servers(given: str | Sequence[str]) -> str:
    servers = [one.strip() for one in (given.split(",") if isinstance(given, str) else given)]
    for one in servers or [""]:
        if not _SERVER.fullmatch(one):
            raise ValueError(f'servers = {one!r}: expected host:port, or a list of them, such as "broker:9092"')
    return ",".join(servers)


def _topics(given: str | Sequence[str]) -> tuple[str, ...]:
    topics = tuple([given] if isinstance(given, str) else given)
    if not topics:
        raise ValueError("topics = []: expected at least one")
    for one in topics:
        if one.startswith("^"):
            try:
                re.compile(one)
            except re.error as error:
                raise ValueError(f"topics = {one!r}: not a regular expression: {error}") from None
        elif not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", one):
            raise ValueError(
                f"topics = {one!r}: expected a name of letters, digits, . _ -, or a pattern that begins with ^"
            )
    return topics


def _start(given: str) -> int | str:
    if given in ("latest", "earliest"):
        return given
    try:
        when = datetime.fromisoformat(given)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise ValueError(f"start = {given!r}: expected latest, earliest, or a time such as 2026-11-18T09:00:00Z")
    return int(when.timestamp() * 1000)


def _options(given: Mapping[str, Any], file: Path | None) -> Mapping[str, Any]:
    options = dict(given)
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            cause = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ValueError(f"options_file = {str(file)!r}: {cause}") from None
        for number, line in enumerate(lines, 1):
            name, equals, value = line.partition("=")
            if not line.strip() or line.lstrip().startswith(("#", "!")):
                continue
            if not equals:
                # Not the line itself: it may be a password.
                raise ValueError(f"options_file = {str(file)!r}: line {number} is not NAME=VALUE")
            options[name.strip()] = value.strip()
    for name in options:
        if name in _OURS:
            raise ValueError(f"options: {name} is set by the adapter; see servers, group, start")
    return options
