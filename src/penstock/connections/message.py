"""A message as any broker has it, on its way in or out, and what became of one that came in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple


class Settlement(StrEnum):
    """Of a message that came in."""

    # All that it asked for is on the disk, or has been passed on.
    DONE = "done"
    # It will never be accepted: it is counted and skipped.
    REJECTED = "rejected"
    # It could not be dealt with for now, and must come again.
    AGAIN = "again"


class LogPlace(NamedTuple):
    """Where a record of a log is; those that brokers number can be recognised when they come again."""

    topic: str
    partition: int
    offset: int


class InboundMessage:
    """`settle` is to be called once. `headers` have names in lower case, `address` is that of the source."""

    __slots__ = ("address", "headers", "key", "payload", "place", "settle", "source", "topic")

    def __init__(
        self,
        source: int,
        address: str,
        topic: str,
        payload: bytes,
        headers: Mapping[str, str],
        settle: Callable[[Settlement], None],
        key: bytes | None = None,
        place: LogPlace | None = None,
    ) -> None:
        self.source = source
        self.address = address
        self.topic = topic
        self.payload = payload
        self.headers = headers
        self.settle = settle
        self.key = key
        self.place = place


class OutboundMessage(NamedTuple):
    """`address` is the topic, subject or path; `qos` is that of the target."""

    address: str
    payload: bytes
    headers: Mapping[str, str]
    qos: int = 0
