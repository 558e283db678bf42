"""A record as any broker delivers it. Messages of confluent-kafka are such records as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class BrokerRecord(Protocol):
    """What a topic, subject or partition holds; None where a broker has no such thing."""

    def topic(self) -> str | None: ...

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None:
        """None deletes what the key names, where the broker knows keys."""
        ...

    def headers(self) -> Any:
        """Pairs of a name and bytes, or None. Any, because confluent-kafka does not declare it."""
        ...

    def partition(self) -> int | None: ...

    def offset(self) -> int | None: ...

    def timestamp(self) -> tuple[int, int]:
        """Its kind, 0 if there is none, and milliseconds since 1970."""
        ...


class DeliveredRecord:
    """One of a broker whose library has messages of another form."""

    __slots__ = ("_headers", "_key", "_millis", "_offset", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        offset: int | None = None,
        millis: int | None = None,
    ) -> None:
        self._topic = topic
        self._value = value
        self._key = key
        self._headers = headers
        self._offset = offset
        self._millis = millis

    def topic(self) -> str:
        return self._topic

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Sequence[tuple[str, bytes]]:
        return self._headers

    def partition(self) -> int | None:
        return None

    def offset(self) -> int | None:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (0, 0) if self._millis is None else (1, self._millis)


class PoisonRecord(Exception):
    """A record that cannot be made an event; the text says why. It is counted, logged and skipped."""
