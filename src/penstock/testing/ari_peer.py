"""The adapter's side: requests as an adapter reads them, and the lines it sends. For tests and tools.

Strict where the published SDKs are lax, so that a test sees what they would forgive. The server's side is in `requests`
and `packets`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.wire.ari.errors import BadPacket
from penstock.wire.ari.packets import Credentials, ForceSessionEnd, ForceUnsubscription
from penstock.wire.ari.replies import (
    VERSION_PARAMETER,
    AriNames,
    Done,
    ExceptionKind,
    Failed,
    Initialised,
    ItemData,
    Reply,
    SessionAdmitted,
    TablesAdmitted,
    UserAdmitted,
    UserItemData,
    parse_parameters,
)
from penstock.wire.ari.requests import (
    CLOSE_ID,
    DeviceInfo,
    GetItemData,
    GetItems,
    GetSchema,
    GetUserItemData,
    InitData,
    InitMetadata,
    NotifyActivation,
    NotifyCertifiedUser,
    NotifyDevice,
    NotifyMessage,
    NotifySession,
    NotifySessionEnd,
    NotifyTables,
    NotifyTablesEnd,
    NotifyTokenChange,
    NotifyUser,
    Pairs,
    Request,
    Statistics,
    SubscribeItem,
    TableInfo,
    UnsubscribeItem,
)
from penstock.wire.ari.values import Encoder, TokenReader, encode_compatible, encode_modes, encoder
from penstock.wire.ari.version import NEWEST, UNNAMED, Version


@dataclass(frozen=True, slots=True)
class Close:
    reason: str | None


@dataclass(frozen=True, slots=True)
class ForcedReply:
    """The server's answer to a request of the adapter: an error, or for FUS whether there was such a subscription."""

    request: str
    method: str
    done: bool = True
    error: str | None = None


# -- what the server sends ---------------------------------------------------------------------------------------------


def parse_request(line: str, version: Version) -> tuple[str, Request] | Close | ForcedReply:
    """A line of the server: a request with its identifier, CLOSE, or an answer."""
    parts = line.split("|")
    if len(parts) < 2 or "" in parts:
        raise BadPacket("fewer than two tokens, or an empty one")
    identifier, method = parts[0], parts[1]
    if version < (1, 9, 0) and not line.isascii():
        raise BadPacket(f"not ASCII, as it must be in version {version}", method)
    tokens = TokenReader(parts, method, identifier)
    if method == "CLOSE" and identifier == CLOSE_ID:
        return Close(parse_parameters(tokens).get("reason"))
    if method in ("FST", "FUS"):
        return _forced_reply(identifier, method, tokens)
    if method not in _REQUESTS:
        raise BadPacket("not a request", method, 2)
    request = _REQUESTS[method](tokens, version)
    tokens.end()
    return identifier, request


def _forced_reply(identifier: str, method: str, tokens: TokenReader) -> ForcedReply:
    done, error = True, None
    if tokens.type == "E":
        tokens.raw()
        done, error = False, tokens.bare_text()
    elif method == "FUS":
        done = tokens.boolean()
    else:
        tokens.void()
    tokens.end()
    return ForcedReply(identifier, method, done, error)


def _pairs(tokens: TokenReader) -> Pairs:
    pairs: list[tuple[str, str | None]] = []
    while tokens.more:
        pairs.append((tokens.text() or "", tokens.text()))
    return tuple(pairs)


def _texts(tokens: TokenReader, count: int | None = None) -> tuple[str, ...]:
    texts: list[str] = []
    while len(texts) != count if count is not None else tokens.more:
        texts.append(tokens.text() or "")
    return tuple(texts)


def _init(tokens: TokenReader, kind: type[InitMetadata] | type[InitData]) -> Request:
    if (tokens.text(), tokens.text()) != (VERSION_PARAMETER, str(NEWEST)):
        raise tokens.bad(f"expected {VERSION_PARAMETER} {NEWEST}", 1)
    return kind(_pairs(tokens))


def _table(tokens: TokenReader, version: Version, final: bool, with_selector: bool = True) -> TableInfo:
    rich = version.has_rich_tables
    index, modes = tokens.integer(), tokens.modes()
    if len(modes) != 1:
        raise tokens.bad("expected one mode", 1)
    group = tokens.text() or ""
    data_adapter = tokens.text() if rich else None
    schema, first, last = tokens.text() or "", tokens.integer(), tokens.integer()
    selector = tokens.text() if with_selector else None
    items = _texts(tokens, tokens.integer()) if rich else ()
    statistics: list[Statistics] = []
    for _ in range(tokens.integer() if rich and final else 0):
        statistics.append(Statistics(tokens.integer("L"), tokens.integer("L"), tokens.integer("L")))
    return TableInfo(index, modes[0], group, schema, first, last, selector, data_adapter, items, tuple(statistics))


def _tables(tokens: TokenReader, version: Version, final: bool) -> tuple[TableInfo, ...]:
    tables: list[TableInfo] = []
    while tokens.more:
        tables.append(_table(tokens, version, final))
    return tuple(tables)


def _device(tokens: TokenReader) -> DeviceInfo:
    return DeviceInfo(tokens.platform(), tokens.text() or "", tokens.text() or "")


def _activation(tokens: TokenReader, version: Version) -> NotifyActivation:
    user, session = tokens.text(), tokens.text() or ""
    table = _table(tokens, version, final=False, with_selector=False)
    return NotifyActivation(user, session, table, _device(tokens), tokens.text(), tokens.text() or "")


_REQUESTS: dict[str, Callable[[TokenReader, Version], Request]] = {
    "MPI": lambda tokens, version: _init(tokens, InitMetadata),
    "DPI": lambda tokens, version: _init(tokens, InitData),
    "SUB": lambda tokens, version: SubscribeItem(tokens.text() or ""),
    "USB": lambda tokens, version: UnsubscribeItem(tokens.text() or ""),
    "NUS": lambda tokens, version: NotifyUser(tokens.text(), tokens.text(), _pairs(tokens)),
    "NUA": lambda tokens, version: NotifyCertifiedUser(tokens.text(), tokens.text(), tokens.text(), _pairs(tokens)),
    "NNS": lambda tokens, version: NotifySession(tokens.text(), tokens.text() or "", _pairs(tokens)),
    "NSC": lambda tokens, version: NotifySessionEnd(tokens.text() or ""),
    "GIS": lambda tokens, version: GetItems(tokens.text(), tokens.text() or "", tokens.text() or ""),
    "GSC": lambda tokens, version: GetSchema(
        tokens.text(), tokens.text() or "", tokens.text() or "", tokens.text() or ""
    ),
    "GIT": lambda tokens, version: GetItemData(_texts(tokens)),
    "GUI": lambda tokens, version: GetUserItemData(tokens.text(), _texts(tokens)),
    "NUM": lambda tokens, version: NotifyMessage(tokens.text(), tokens.text() or "", tokens.text() or ""),
    "NNT": lambda tokens, version: NotifyTables(tokens.text(), tokens.text() or "", _tables(tokens, version, False)),
    "NTC": lambda tokens, version: NotifyTablesEnd(tokens.text() or "", _tables(tokens, version, True)),
    "MDA": lambda tokens, version: NotifyDevice(tokens.text(), tokens.text() or "", _device(tokens)),
    "MDC": lambda tokens, version: NotifyTokenChange(
        tokens.text(), tokens.text() or "", _device(tokens), tokens.text() or ""
    ),
    "MSA": _activation,
}


# -- what the adapter sends --------------------------------------------------------------------------------------------

KEEPALIVE = b"KEEPALIVE\r\n"


def credentials(given: Credentials, identifier: str = "1") -> bytes:
    """The first line; on a connection for notifications the identifier is a time."""
    pairs = [("user", given.user), ("password", given.password)]
    pairs += [("enableClosePacket", "true" if given.enables_close else None), ("SDK", given.sdk)]
    tokens = [identifier, "RAC"]
    for name, value in pairs:
        if value is not None:
            tokens += ["S", name, "S", encode_compatible(value)]
    return _line(tokens)


def encode_reply(reply: Reply, version: Version) -> bytes:
    """An answer in the form of a version."""
    encode = encode_compatible if isinstance(reply, Initialised) else encoder(version)
    return _line([reply.request, reply.method, *_reply_tokens(reply, encode, version)])


def _reply_tokens(reply: Reply, encode: Encoder, version: Version) -> list[str]:
    if isinstance(reply, Failed):
        return _failed_tokens(reply, encode)
    if isinstance(reply, Initialised):
        if reply.version == UNNAMED:
            return ["V"]
        named = {VERSION_PARAMETER: str(reply.version), **reply.parameters}
        return [token for name, value in named.items() for token in ("S", encode(name), "S", encode(value))]
    if isinstance(reply, UserAdmitted):
        return ["D", str(reply.max_bandwidth), "B", _bit(reply.wants_tables)]
    if isinstance(reply, SessionAdmitted) and version.has_time_to_live:
        return ["I", str(reply.time_to_live or 0)]
    if isinstance(reply, TablesAdmitted) and version.has_rich_tables:
        return ["B", _bit(reply.enable_unsubscription), "B", _bit(reply.wants_statistics)]
    if isinstance(reply, AriNames):
        return [token for name in reply.names for token in ("S", encode(name))]
    tokens: list[str] = []
    if isinstance(reply, ItemData):
        for item in reply.items:
            tokens += ["I", str(item.snapshot_length), "D", str(item.min_source_frequency)]
            tokens += ["M", encode_modes(item.modes)]
        return tokens
    if isinstance(reply, UserItemData):
        for granted in reply.items:
            tokens += ["I", str(granted.max_buffer_size), "D", str(granted.max_frequency)]
            tokens += ["M", encode_modes(granted.modes)]
        return tokens
    if isinstance(reply, Done | SessionAdmitted | TablesAdmitted):
        return ["V"]
    raise TypeError(f"{type(reply).__name__} is not an answer")


def _failed_tokens(reply: Failed, encode: Encoder) -> list[str]:
    tokens = [f"E{reply.kind.value}", encode(reply.message)]
    if reply.kind in (ExceptionKind.CREDITS, ExceptionKind.CONFLICTING_SESSION):
        tokens += [str(reply.code or 0), encode(reply.client_message)]
    if reply.kind is ExceptionKind.CONFLICTING_SESSION:
        tokens.append(encode(reply.conflicting_session))
    return tokens


def update(
    timestamp: int,
    item: str,
    subscription: str,
    snapshot: bool,
    fields: Mapping[str, str | bytes | None],
    version: Version,
) -> bytes:
    encode = encoder(version)
    tokens = [str(timestamp), "UD3", "S", encode(item), "S", encode(subscription), "B", _bit(snapshot)]
    for name, value in fields.items():
        tokens += ["S", encode(name)]
        tokens += ["Y", b64encode(value).decode()] if isinstance(value, bytes) else ["S", encode(value)]
    return _line(tokens)


def end_of_snapshot(timestamp: int, item: str, subscription: str, version: Version) -> bytes:
    encode = encoder(version)
    return _line([str(timestamp), "EOS", "S", encode(item), "S", encode(subscription)])


def clear_snapshot(timestamp: int, item: str, subscription: str, version: Version) -> bytes:
    encode = encoder(version)
    return _line([str(timestamp), "CLS", "S", encode(item), "S", encode(subscription)])


def declare_differences(
    timestamp: int, item: str, subscription: str, orders: Mapping[str, str | None], version: Version
) -> bytes:
    encode = encoder(version)
    tokens = [str(timestamp), "DFD", "S", encode(item), "S", encode(subscription)]
    for name, order in orders.items():
        tokens += ["S", encode(name), "F", "#" if order is None else order or "$"]
    return _line(tokens)


def failure(identifier: str, message: str, version: Version) -> bytes:
    """The identifier is a time, or 2 from a metadata adapter."""
    return _line([identifier, "FAL", "E", encoder(version)(message)])


def force(request: ForceSessionEnd | ForceUnsubscription, version: Version) -> bytes:
    encode = encoder(version)
    if isinstance(request, ForceUnsubscription):
        return _line([request.request, "FUS", "S", encode(request.session), "I", str(request.table)])
    outcome = ["V"] if request.code is None else ["I", str(request.code), "S", encode(request.message)]
    return _line([request.request, "FST", "S", encode(request.session), *outcome])


def _bit(value: bool | None) -> str:
    return "1" if value else "0"


def _line(tokens: list[str]) -> bytes:
    return ("|".join(tokens) + "\r\n").encode("utf-8", "replace")
