"""Everything that the server sends to a remote adapter: requests, answers to the adapter's own, and CLOSE.

A request is a record; `encode_request` makes it a line in the form of the negotiated version. Answers are in `replies`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.wire.ari.replies import VERSION_PARAMETER
from penstock.wire.ari.values import MODES, Encoder, encode_compatible, encode_platform, encoder
from penstock.wire.ari.version import NEWEST, Version

# Reserved identifiers; those of requests must differ. RAC has 1, a failing metadata adapter 2, and adapters number
# their own requests from 100.
CLOSE_ID = "0"

# Names and values in order, such as headers and parameters.
Pairs = tuple[tuple[str, str | None], ...]


def _text(encode: Encoder, *values: str | None) -> list[str]:
    tokens: list[str] = []
    for value in values:
        tokens += ("S", encode(value))
    return tokens


def _pairs(encode: Encoder, pairs: Pairs) -> list[str]:
    return _text(encode, *[text for pair in pairs for text in pair])


@dataclass(frozen=True, slots=True)
class Request:
    """What all requests have: a method, and arguments that depend on the version."""

    method: ClassVar[str]

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Init(Request):
    """The first request of a connection, and only that; the adapter answers with the version to be used."""

    parameters: Pairs

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _pairs(encode_compatible, ((VERSION_PARAMETER, str(NEWEST)), *self.parameters))


@dataclass(frozen=True, slots=True)
class InitMetadata(_Init):
    """Known parameters are keepalive_hint.millis and adapters_conf.id; others are the adapter's own."""

    method: ClassVar[str] = "MPI"


@dataclass(frozen=True, slots=True)
class InitData(_Init):
    """As for metadata; and data_provider.name."""

    method: ClassVar[str] = "DPI"


@dataclass(frozen=True, slots=True)
class SubscribeItem(Request):
    """Its identifier comes back in the item's notifications. Never twice without an `UnsubscribeItem` between."""

    method: ClassVar[str] = "SUB"
    item: str

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.item)


@dataclass(frozen=True, slots=True)
class UnsubscribeItem(Request):
    method: ClassVar[str] = "USB"
    item: str

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.item)


@dataclass(frozen=True, slots=True)
class NotifyUser(Request):
    method: ClassVar[str] = "NUS"
    user: str | None
    password: str | None = field(repr=False)
    headers: Pairs = ()

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, self.password) + _pairs(encode, self.headers)


@dataclass(frozen=True, slots=True)
class NotifyCertifiedUser(Request):
    """A user who has presented a certificate, by its principal."""

    method: ClassVar[str] = "NUA"
    user: str | None
    password: str | None = field(repr=False)
    principal: str | None
    headers: Pairs = ()

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, self.password, self.principal) + _pairs(encode, self.headers)


@dataclass(frozen=True, slots=True)
class NotifySession(Request):
    """A new session; the context is REMOTE_IP, USER_AGENT and the like."""

    method: ClassVar[str] = "NNS"
    user: str | None
    session: str
    context: Pairs = ()

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, self.session) + _pairs(encode, self.context)


@dataclass(frozen=True, slots=True)
class NotifySessionEnd(Request):
    method: ClassVar[str] = "NSC"
    session: str

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.session)


@dataclass(frozen=True, slots=True)
class GetItems(Request):
    method: ClassVar[str] = "GIS"
    user: str | None
    group: str
    session: str

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, self.group, self.session)


@dataclass(frozen=True, slots=True)
class GetSchema(Request):
    method: ClassVar[str] = "GSC"
    user: str | None
    group: str
    schema: str
    session: str

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, self.group, self.schema, self.session)


@dataclass(frozen=True, slots=True)
class GetItemData(Request):
    method: ClassVar[str] = "GIT"
    items: tuple[str, ...]

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, *self.items)


@dataclass(frozen=True, slots=True)
class GetUserItemData(Request):
    method: ClassVar[str] = "GUI"
    user: str | None
    items: tuple[str, ...]

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, *self.items)


@dataclass(frozen=True, slots=True)
class NotifyMessage(Request):
    """The adapter cannot answer with a text of its own."""

    method: ClassVar[str] = "NUM"
    user: str | None
    session: str
    message: str

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, self.session, self.message)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of one item of a closed subscription."""

    real_time: int
    lost: int
    filtered: int


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A subscription. Before 1.9.0 data adapter, items and statistics are not sent."""

    index: int
    mode: str
    group: str
    schema: str
    first_item: int
    last_item: int
    selector: str | None = None
    data_adapter: str | None = None
    items: tuple[str, ...] = ()
    # Only for subscriptions that have ended; there may be none.
    statistics: tuple[Statistics, ...] = ()

    def tokens(self, encode: Encoder, version: Version, with_selector: bool = True) -> list[str]:
        head = ["I", str(self.index), "M", MODES[self.mode], *_text(encode, self.group)]
        if version.has_rich_tables:
            head += _text(encode, self.data_adapter)
        head += _text(encode, self.schema)
        head += ["I", str(self.first_item), "I", str(self.last_item)]
        if with_selector:
            head += _text(encode, self.selector)
        if version.has_rich_tables:
            head += ["I", str(len(self.items)), *_text(encode, *self.items)]
        return head

    def final_tokens(self, encode: Encoder, version: Version) -> list[str]:
        tokens = self.tokens(encode, version)
        if version.has_rich_tables:
            tokens += ["I", str(len(self.statistics))]
            for each in self.statistics:
                tokens += ["L", str(each.real_time), "L", str(each.lost), "L", str(each.filtered)]
        return tokens


@dataclass(frozen=True, slots=True)
class NotifyTables(Request):
    """New subscriptions; only sent for users whose admission asked for it."""

    method: ClassVar[str] = "NNT"
    user: str | None
    session: str
    tables: tuple[TableInfo, ...]

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        tokens = _text(encode, self.user, self.session)
        for table in self.tables:
            tokens += table.tokens(encode, version)
        return tokens


@dataclass(frozen=True, slots=True)
class NotifyTablesEnd(Request):
    method: ClassVar[str] = "NTC"
    session: str
    tables: tuple[TableInfo, ...]

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        tokens = _text(encode, self.session)
        for table in self.tables:
            tokens += table.final_tokens(encode, version)
        return tokens


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device for push notifications."""

    platform: str | None
    application: str
    token: str = field(repr=False)

    def tokens(self, encode: Encoder) -> list[str]:
        return ["P", encode_platform(self.platform), *_text(encode, self.application, self.token)]


@dataclass(frozen=True, slots=True)
class NotifyDevice(Request):
    """A session wants to use a device."""

    method: ClassVar[str] = "MDA"
    user: str | None
    session: str
    device: DeviceInfo

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, self.session) + self.device.tokens(encode)


@dataclass(frozen=True, slots=True)
class NotifyTokenChange(Request):
    method: ClassVar[str] = "MDC"
    user: str | None
    session: str
    device: DeviceInfo
    new_token: str = field(repr=False)

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        return _text(encode, self.user, self.session) + self.device.tokens(encode) + _text(encode, self.new_token)


@dataclass(frozen=True, slots=True)
class NotifyActivation(Request):
    """A subscription for push notifications, which has no selector, on a device."""

    method: ClassVar[str] = "MSA"
    user: str | None
    session: str
    table: TableInfo
    device: DeviceInfo
    trigger: str | None
    format: str

    def arguments(self, encode: Encoder, version: Version) -> list[str]:
        tokens = _text(encode, self.user, self.session) + self.table.tokens(encode, version, with_selector=False)
        return tokens + self.device.tokens(encode) + _text(encode, self.trigger, self.format)


def encode_request(identifier: str, request: Request, version: Version) -> bytes:
    """A whole line. The identifier is any text without pipes, escapes and spaces that is not reserved."""
    return _line(identifier, request.method, *request.arguments(encoder(version), version))


def close(reason: str | None = None) -> bytes:
    """The last line before the connection is closed; not for adapters that do not know it (see `Version`)."""
    if reason is None:
        return _line(CLOSE_ID, "CLOSE")
    return _line(CLOSE_ID, "CLOSE", *_text(encode_compatible, "reason", reason))


def session_ended(request: str) -> bytes:
    """The answer to ForceSessionEnd."""
    return _line(request, "FST", "V")


def unsubscribed(request: str, done: bool) -> bytes:
    """The answer to ForceUnsubscription; `done` is False if there was no such subscription."""
    return _line(request, "FUS", "B", "1" if done else "0")


def refused(request: str, method: str, message: str, version: Version) -> bytes:
    """The answer to either when it cannot be done."""
    return _line(request, method, "E", encoder(version)(message))


def _line(*tokens: str) -> bytes:
    """Lone surrogates, which UTF-8 cannot encode, become question marks."""
    return ("|".join(tokens) + "\r\n").encode("utf-8", "replace")
