"""The kernel's ports worked by hand: a data source, a message handler, a waker. They record what they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.kernel.feed import Feed
from penstock.kernel.item import Mode
from penstock.kernel.ports import Value

if TYPE_CHECKING:
    from penstock.kernel.messages import Message
    from penstock.kernel.ports import AttendedSession


class HandSource:
    """A data source. With `snapshots`, an item that has a state is published as soon as it is subscribed."""

    def __init__(self, snapshots: bool = True) -> None:
        self.snapshots = snapshots
        self.calls: list[tuple[str, str]] = []
        self.bound: list[tuple[str, Mode]] = []
        self.complaints: list[tuple[str, str]] = []
        self.state: dict[str, dict[str, Value]] = {}
        self.feed: Feed | None = None

    def subscribe(self, item: str, serial: int, mode: Mode) -> None:
        self.calls.append(("subscribe", item))
        if self.snapshots and item in self.state and self.feed is not None:
            self.feed.update(item, self.state[item], snapshot=True)

    def bind(self, item: str, mode: Mode) -> None:
        self.bound.append((item, mode))

    def unsubscribe(self, item: str) -> None:
        self.calls.append(("unsubscribe", item))

    def complain(self, item: str, complaint: str) -> None:
        self.complaints.append((item, complaint))

    def has_snapshot(self, item: str) -> bool:
        return self.snapshots

    def publish(self, item: str, event: Mapping[str, Value]) -> None:
        """Something has happened to the item; it is remembered whether anybody is subscribed or not."""
        self.state.setdefault(item, {}).update(event)
        if self.feed is not None:
            self.feed.update(item, event)


class HandHandler:
    """A message handler. It answers at once, or leaves messages in `waiting` for the test to answer."""

    def __init__(self) -> None:
        self.answers_at_once = True
        self.delivered: list[str] = []
        self.waiting: list[tuple[AttendedSession, Message]] = []

    def deliver(self, session: AttendedSession, message: Message) -> None:
        self.delivered.append(message.text)
        if self.answers_at_once:
            session.messages.done(message, "")
        else:
            self.waiting.append((session, message))

    def answer(self, response: str = "") -> None:
        """Finish the message that has waited longest."""
        session, message = self.waiting.pop(0)
        session.messages.done(message, response)

    def refuse(self, code: int, text: str) -> None:
        """Turn down the message that has waited longest."""
        session, message = self.waiting.pop(0)
        session.messages.failed(message, code, text)


class ManualWaker:
    """Remembers that a turn was asked for."""

    def __init__(self) -> None:
        self.asked = False

    def wake(self) -> None:
        self.asked = True
