"""What an adapter answers to the requests of `requests`: typed results, or the exception that it raised.

Answers come in any order; `request` is the identifier of the request. Whether one is expected is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from penstock.wire.ari.values import TokenReader
from penstock.wire.ari.version import SUPPORTED, UNNAMED, Version, find_version

VERSION_PARAMETER = "ARI.version"


class ExceptionKind(Enum):
    """The exceptions of adapters, by the letter after the E."""

    GENERIC = ""
    METADATA = "M"
    DATA = "D"
    SUBSCRIPTION = "U"
    FAILURE = "F"
    ACCESS = "A"
    CREDITS = "C"
    CONFLICTING_SESSION = "X"
    RESOURCE_UNAVAILABLE = "R"
    ITEMS = "I"
    SCHEMA = "S"
    NOTIFICATION = "N"


_KINDS = {f"E{kind.value}": kind for kind in ExceptionKind}


@dataclass(frozen=True, slots=True)
class Reply:
    request: str
    method: str


@dataclass(frozen=True, slots=True)
class Done(Reply):
    """An answer without content."""


@dataclass(frozen=True, slots=True)
class Failed(Reply):
    kind: ExceptionKind
    message: str
    # Only of CREDITS and CONFLICTING_SESSION: what the client is to be told. Codes are zero or negative by agreement.
    code: int | None = None
    client_message: str | None = None
    # Only of CONFLICTING_SESSION.
    conflicting_session: str | None = None


@dataclass(frozen=True, slots=True)
class Initialised(Reply):
    version: Version
    # The other parameters of the answer.
    parameters: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class UserAdmitted(Reply):
    max_bandwidth: float  # In kbit/s; zero or less: no limit
    wants_tables: bool  # Whether the adapter wants to be told of the user's subscriptions


@dataclass(frozen=True, slots=True)
class SessionAdmitted(Reply):
    time_to_live: int | None  # In seconds; None from adapters of older versions; zero or less: no limit


@dataclass(frozen=True, slots=True)
class AriNames(Reply):
    """Items or fields."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemFacts:
    snapshot_length: int
    min_source_frequency: float
    modes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemData(Reply):
    """For each item asked for, in that order."""

    items: tuple[ItemFacts, ...]


@dataclass(frozen=True, slots=True)
class UserItemFacts:
    max_buffer_size: int  # Zero or less: no limit
    max_frequency: float  # In updates a second; zero or less: no limit
    modes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserItemData(Reply):
    """For each item asked for, in that order."""

    items: tuple[UserItemFacts, ...]


@dataclass(frozen=True, slots=True)
class TablesAdmitted(Reply):
    """None from adapters of older versions."""

    enable_unsubscription: bool | None
    wants_statistics: bool | None


def parse_reply(parts: list[str], version: Version) -> Reply:
    """An answer, from the tokens of its line; the method must be one of `REPLY_PARSERS`."""
    request, method = parts[0], parts[1]
    tokens = TokenReader(parts, method, request)
    kind = _KINDS.get(tokens.type)
    if kind is not None:
        return _failed(request, method, kind, tokens)
    reply = REPLY_PARSERS[method](request, method, tokens, version)
    tokens.end()
    return reply


def _failed(request: str, method: str, kind: ExceptionKind, tokens: TokenReader) -> Failed:
    tokens.raw()
    message = tokens.bare_text() or ""
    if kind not in (ExceptionKind.CREDITS, ExceptionKind.CONFLICTING_SESSION):
        tokens.end()
        return Failed(request, method, kind, message)
    code, client_message = tokens.bare_integer(), tokens.bare_text()
    session = tokens.bare_text() if kind is ExceptionKind.CONFLICTING_SESSION else None
    tokens.end()
    return Failed(request, method, kind, message, code, client_message, session)


def parse_parameters(tokens: TokenReader) -> dict[str, str | None]:
    """Pairs of names and values up to the end."""
    tokens.skip_empty_list()
    parameters: dict[str, str | None] = {}
    while tokens.more:
        name = tokens.name()
        if name in parameters:
            raise tokens.bad("a parameter that was there before", 1)
        parameters[name] = tokens.text()
    return parameters


def _initialised(request: str, method: str, tokens: TokenReader, version: Version) -> Initialised:
    if tokens.type == "V":
        tokens.void()
        return Initialised(request, method, UNNAMED, {})
    parameters = parse_parameters(tokens)
    named = find_version(parameters.pop(VERSION_PARAMETER, None) or "")
    if named is None:
        known = ", ".join([str(each) for each in SUPPORTED])
        raise tokens.bad(f"no {VERSION_PARAMETER} before here that is spoken; expected one of {known}")
    return Initialised(request, method, named, parameters)


def _done(request: str, method: str, tokens: TokenReader, version: Version) -> Done:
    tokens.void()
    return Done(request, method)


def _user_admitted(request: str, method: str, tokens: TokenReader, version: Version) -> UserAdmitted:
    return UserAdmitted(request, method, tokens.double(), tokens.boolean())


def _session_admitted(request: str, method: str, tokens: TokenReader, version: Version) -> SessionAdmitted:
    if version.has_time_to_live:
        return SessionAdmitted(request, method, tokens.integer())
    tokens.void()
    return SessionAdmitted(request, method, None)


def _names(request: str, method: str, tokens: TokenReader, version: Version) -> AriNames:
    tokens.skip_empty_list()
    names: list[str] = []
    while tokens.more:
        names.append(tokens.name())
    return AriNames(request, method, tuple(names))


def _item_data(request: str, method: str, tokens: TokenReader, version: Version) -> ItemData:
    tokens.skip_empty_list()
    items: list[ItemFacts] = []
    while tokens.more:
        items.append(ItemFacts(tokens.integer(), tokens.double(), tokens.modes()))
    return ItemData(request, method, tuple(items))


def _user_item_data(request: str, method: str, tokens: TokenReader, version: Version) -> UserItemData:
    tokens.skip_empty_list()
    items: list[UserItemFacts] = []
    while tokens.more:
        items.append(UserItemFacts(tokens.integer(), tokens.double(), tokens.modes()))
    return UserItemData(request, method, tuple(items))


def _tables_admitted(request: str, method: str, tokens: TokenReader, version: Version) -> TablesAdmitted:
    if version.has_rich_tables:
        return TablesAdmitted(request, method, tokens.boolean(), tokens.boolean())
    tokens.void()
    return TablesAdmitted(request, method, None, None)


REPLY_PARSERS: dict[str, Callable[[str, str, TokenReader, Version], Reply]] = {
    "MPI": _initialised,
    "DPI": _initialised,
    "SUB": _done,
    "USB": _done,
    "NUS": _user_admitted,
    "NUA": _user_admitted,
    "NNS": _session_admitted,
    "NSC": _done,
    "GIS": _names,
    "GSC": _names,
    "GIT": _item_data,
    "GUI": _user_item_data,
    "NUM": _done,
    "NNT": _tables_admitted,
    "NTC": _done,
    "MDA": _done,
    "MDC": _done,
    "MSA": _done,
}
