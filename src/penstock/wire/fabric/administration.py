"""What an administrator asks of an edge, on its way from the hub: bodies of the calls `administer`, `gate` and
`levels`.

What is done is in `penstock.services.admin`, who asks whom in `penstock.services.cluster`.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

# Adapter set, data adapter, item.
ItemPath: TypeAlias = tuple[str, str, str]


class ListSessions(Struct, tag="sessions", array_like=True, frozen=True):
    offset: int
    limit: int
    user: str | None
    adapter_set: str | None


class ShowSession(Struct, tag="session", array_like=True, frozen=True):
    """Sessions have the names that are shown of them."""

    session: str


class EndSession(Struct, tag="end", array_like=True, frozen=True):
    session: str
    code: int
    message: str


class LimitSession(Struct, tag="bandwidth", array_like=True, frozen=True):
    """Not `ruled`: what the metadata adapter allows holds again."""

    session: str
    ruled: bool
    limit: float | None


class EndSubscription(Struct, tag="unsubscribe", array_like=True, frozen=True):
    session: str
    number: int


class LimitSubscription(Struct, tag="frequency", array_like=True, frozen=True):
    session: str
    number: int
    ruled: bool
    limit: float | None


class CountSubscribers(Struct, tag="subscribers", array_like=True, frozen=True):
    """Of these items; None: of all. Answered by pairs of item and number, without those that have none."""

    items: tuple[ItemPath, ...] | None


class ListRows(Struct, tag="rows", array_like=True, frozen=True):
    """Of all sessions, as tables of monitoring show them: keys and fields."""


AdminWish: TypeAlias = (
    ListSessions
    | ShowSession
    | EndSession
    | LimitSession
    | EndSubscription
    | LimitSubscription
    | CountSubscribers
    | ListRows
)


class AdminQuestion(Struct, array_like=True, frozen=True):
    wish: AdminWish


class AdminReply(Struct, array_like=True, frozen=True):
    """JSON, or bodies of this module, as the wish has it. A `problem` says what is wrong, with a status of HTTP; then
    nothing has changed. Not `is_here`: the session that it is about is not at this edge.
    """

    value: bytes = b""
    problem: str = ""
    status: int = 200
    is_here: bool = True


class LevelsBody(Struct, array_like=True, frozen=True):
    """Levels of the log that are set over the configuration of the process, and no others, by category."""

    levels: dict[str, str]


class GateBody(Struct, array_like=True, frozen=True):
    """Who is let in, from now on. Blocks are scope, name, and the administrator."""

    blocks: tuple[tuple[str, str, str], ...]
    draining: bool
    # In which sessions are ended; None: they go by themselves.
    seconds_left: float | None
    # Whether the edge stops when no session is left.
    stop: bool = False
    # Whether other edges take clients while this one drains.
    others: bool = False
