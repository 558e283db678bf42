"""TLCP as a client sees it, without any I/O: server lines in, typed events out; requests are built on the way.

The caller carries bytes or lines from any transport to `receive_data` or `receive_line`, and sends the requests that
the other methods return; `connection` does so over a WebSocket. Specification: chapters 1 to 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

from penstock.client import requests
from penstock.client.errors import ProtocolError
from penstock.client.events import (
    ClientAddress,
    ClientEvent,
    Configured,
    Constrained,
    Ended,
    EndOfSnapshot,
    Looped,
    MessageDone,
    MessageFailed,
    Overflow,
    Probe,
    PushNotice,
    Recovering,
    RequestDone,
    RequestFailed,
    ServerNamed,
    SessionBound,
    SessionOpened,
    SessionRefused,
    SnapshotCleared,
    SocketReady,
    Subscribed,
    Synchronized,
    Unsubscribed,
    Update,
)
from penstock.client.requests import PLAIN_STREAM, OutgoingRequest, StreamWishes
from penstock.wire.tlcp.errors import RequestError
from penstock.wire.tlcp.values import decode_values
from penstock.wire.tlcp.version import NEWEST, Version

# A line longer than this is taken for a server gone mad, not for data.
MAX_LINE_BYTES = 16_777_216

# How much of an offending line an error shows.
MAX_ECHO = 80

PUSH_TAGS = ("MPNREG", "MPNZERO", "MPNOK", "MPNCONF", "MPNDEL")

# The notifications that are counted, and sent again on recovery (chapter 1, "Session Recovery").
DATA_TAGS = frozenset(("U", "SUBOK", "SUBCMD", "UNSUB", "EOS", "CS", "OV", "CONF", "MSGDONE", "MSGFAIL", *PUSH_TAGS))

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


class SubscriptionState:
    """What the client knows of one subscription; the numbers of items and fields are 0 until the server has said."""

    def __init__(self, mode: str, wants_snapshot: bool) -> None:
        self.mode = mode
        self.wants_snapshot = wants_snapshot and mode != "RAW"
        self.items = 0
        self.fields = 0
        # The values of each item that has had an update, by item number.
        self.values: dict[int, tuple[str | None, ...]] = {}
        self._snapshot_over: set[int] = set()

    @property
    def is_active(self) -> bool:
        """Whether the server has confirmed it."""
        return self.items > 0

    def take(self, item: int, values: tuple[str | None, ...]) -> tuple[tuple[int, ...], bool]:
        """Store new values; which positions differ, and whether they belong to the snapshot (chapter 3, table)."""
        before = self.values.get(item)
        self.values[item] = values
        is_snapshot = self.wants_snapshot and item not in self._snapshot_over
        if self.mode == "MERGE":
            self._snapshot_over.add(item)
        if before is None:
            return tuple(range(len(values))), is_snapshot
        return tuple(index for index, value in enumerate(values) if value != before[index]), is_snapshot

    def end_snapshot(self, item: int) -> None:
        self._snapshot_over.add(item)


class ClientState:
    """One client and its session, one stream connection after another.

    Call `create_session` or `bind_session` for every new stream connection, send what it returns, and feed what comes
    back. After `ProtocolError` give the connection up.
    """

    def __init__(self, version: Version = NEWEST) -> None:
        self.version = version
        self.session_id: str | None = None
        self.request_limit = 0
        self.keepalive_millis = 0
        self.control_link: str | None = None
        # Data notifications of this session so far; those sent again are not counted again.
        self.received = 0
        self.subscriptions: dict[int, SubscriptionState] = {}
        self._buffer = b""
        self._looped = False
        self._awaits_progressive = False
        # Known notifications that the server is about to repeat.
        self._repeats = 0
        self._requests = 0
        self._last_subscription = 0
        # Subscriptions that have not been answered, by request identifier.
        self._adding: dict[str, int] = {}
        self._parsers: dict[str, tuple[int, Callable[[list[str]], ClientEvent]]] = {
            "CONOK": (4, self._conok),
            "CONERR": (2, self._conerr),
            "END": (2, self._end),
            "LOOP": (1, self._loop),
            "PROG": (1, self._prog),
            "CONS": (1, self._cons),
            "SYNC": (1, self._sync),
            "SERVNAME": (1, self._servname),
            "CLIENTIP": (1, self._clientip),
            "PROBE": (0, self._probe),
            "WSOK": (0, self._wsok),
            "REQERR": (3, self._reqerr),
            "ERROR": (2, self._error),
            "SUBOK": (3, self._subok),
            "SUBCMD": (5, self._subok),
            "UNSUB": (1, self._unsub),
            "EOS": (2, self._eos),
            "CS": (2, self._cs),
            "OV": (3, self._ov),
            "CONF": (3, self._conf),
            "MSGDONE": (3 if version.has_message_response else 2, self._msgdone),
            "MSGFAIL": (4, self._msgfail),
        }

    # -- what comes in --------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> list[ClientEvent]:
        """Bytes of the stream connection, cut anywhere; the events of the lines they complete."""
        *lines, self._buffer = (self._buffer + data).split(b"\r\n")
        if len(self._buffer) > MAX_LINE_BYTES:
            raise ProtocolError(f"A line of more than {MAX_LINE_BYTES} bytes")
        events = []
        for line in lines:
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ProtocolError(f"A line that is not UTF-8: {line[:MAX_ECHO]!r}") from error
            event = self.receive_line(text)
            if event is not None:
                events.append(event)
        return events

    def receive_line(self, line: str) -> ClientEvent | None:
        """One line without its end; None for what means nothing to a client: padding, repeats, unknown tags."""
        tag, _, rest = line.partition(",")
        try:
            if tag not in DATA_TAGS:
                return self._parse(tag, rest)
            if self._awaits_progressive:
                raise ProtocolError("A data notification before PROG")
            if self._repeats:
                self._repeats -= 1
                return None
            event = self._parse(tag, rest)
            self.received += 1
            return event
        except ProtocolError as error:
            raise ProtocolError(f"{error} in {line[:MAX_ECHO]!r}") from error.__cause__

    def _parse(self, tag: str, rest: str) -> ClientEvent | None:
        if tag == "U":
            return self._u(rest)
        if tag == "REQOK":
            return self._reqok(rest)
        if tag in PUSH_TAGS:
            return PushNotice(tag, tuple(unquote(argument) for argument in rest.split(",")))
        if tag not in self._parsers:
            return None
        count, parser = self._parsers[tag]
        arguments = [unquote(argument) for argument in rest.split(",")] if rest or count else []
        if len(arguments) != count:
            raise ProtocolError(f"{len(arguments)} arguments where {tag} has {count}")
        return parser(arguments)

    # -- the session ----------------------------------------------------------------------------------------------

    def _conok(self, arguments: list[str]) -> ClientEvent:
        session_id, limit, keepalive, link = arguments
        is_new = self.session_id is None
        if not is_new and session_id != self.session_id:
            raise ProtocolError("Another session than the one asked for")
        self.session_id = session_id
        self.request_limit = _number(limit)
        self.keepalive_millis = _number(keepalive)
        self.control_link = None if link == "*" else link
        kind = SessionOpened if is_new else SessionBound
        return kind(session_id, self.request_limit, self.keepalive_millis, self.control_link)

    def _conerr(self, arguments: list[str]) -> ClientEvent:
        self.session_id = None
        return SessionRefused(_number(arguments[0]), arguments[1])

    def _end(self, arguments: list[str]) -> ClientEvent:
        self.session_id = None
        return Ended(_number(arguments[0]), arguments[1])

    def _loop(self, arguments: list[str]) -> ClientEvent:
        self._looped = True
        return Looped(_number(arguments[0]))

    def _prog(self, arguments: list[str]) -> ClientEvent:
        progressive = _number(arguments[0])
        if progressive > self.received:
            raise ProtocolError(f"A gap: only {self.received} data notifications have been received")
        self._awaits_progressive = False
        self._repeats = self.received - progressive
        return Recovering(progressive, self._repeats)

    def _cons(self, arguments: list[str]) -> ClientEvent:
        return Constrained(_rate(arguments[0], ("unlimited", "unmanaged")), arguments[0] != "unmanaged")

    def _sync(self, arguments: list[str]) -> ClientEvent:
        return Synchronized(_number(arguments[0]))

    def _servname(self, arguments: list[str]) -> ClientEvent:
        return ServerNamed(arguments[0])

    def _clientip(self, arguments: list[str]) -> ClientEvent:
        return ClientAddress(arguments[0])

    def _probe(self, arguments: list[str]) -> ClientEvent:
        return Probe()

    def _wsok(self, arguments: list[str]) -> ClientEvent:
        return SocketReady()

    # -- answers --------------------------------------------------------------------------------------------------

    def _reqok(self, rest: str) -> ClientEvent:
        request_id = unquote(rest) or None
        if request_id is not None:
            self._adding.pop(request_id, None)
        return RequestDone(request_id)

    def _reqerr(self, arguments: list[str]) -> ClientEvent:
        request_id, code, text = arguments
        number = self._adding.pop(request_id, None)
        # Sent again after a cut, a subscription may be refused because it exists.
        if number in self.subscriptions and not self.subscriptions[number].is_active:
            del self.subscriptions[number]
        return RequestFailed(request_id, _number(code), text)

    def _error(self, arguments: list[str]) -> ClientEvent:
        return RequestFailed(None, _number(arguments[0]), arguments[1])

    # -- data -----------------------------------------------------------------------------------------------------

    def _subscription(self, number: int) -> SubscriptionState:
        subscription = self.subscriptions.get(number)
        if subscription is None or not subscription.is_active:
            raise ProtocolError(f"Subscription {number} is not active")
        return subscription

    def _item(self, subscription: int, item: str) -> tuple[SubscriptionState, int]:
        state = self._subscription(subscription)
        number = _number(item)
        if not 1 <= number <= state.items:
            raise ProtocolError(f"Item {number} of a subscription with {state.items}")
        return state, number

    def _u(self, rest: str) -> ClientEvent:
        number_text, _, rest = rest.partition(",")
        item_text, separator, text = rest.partition(",")
        if not separator:
            raise ProtocolError("Fewer than 3 arguments")
        number = _number(number_text)
        state, item = self._item(number, item_text)
        try:
            values = decode_values(text, state.values.get(item), state.fields)
        except (RequestError, ValueError) as error:
            raise ProtocolError(str(error)) from error
        changed, is_snapshot = state.take(item, values)
        return Update(number, item, values, changed, is_snapshot)

    def _subok(self, arguments: list[str]) -> ClientEvent:
        number, items, fields, *places = (_number(argument) for argument in arguments)
        # One that was asked for on another way is taken as it comes.
        state = self.subscriptions.setdefault(number, SubscriptionState("COMMAND" if places else "MERGE", False))
        if state.is_active:
            raise ProtocolError(f"Subscription {number} is active already")
        if fields < 1:
            raise ProtocolError("A subscription without fields")
        state.items = items
        state.fields = fields
        return Subscribed(number, items, fields, *places)

    def _unsub(self, arguments: list[str]) -> ClientEvent:
        number = _number(arguments[0])
        self._subscription(number)
        del self.subscriptions[number]
        return Unsubscribed(number)

    def _eos(self, arguments: list[str]) -> ClientEvent:
        number = _number(arguments[0])
        state, item = self._item(number, arguments[1])
        state.end_snapshot(item)
        return EndOfSnapshot(number, item)

    def _cs(self, arguments: list[str]) -> ClientEvent:
        number = _number(arguments[0])
        return SnapshotCleared(number, self._item(number, arguments[1])[1])

    def _ov(self, arguments: list[str]) -> ClientEvent:
        number = _number(arguments[0])
        return Overflow(number, self._item(number, arguments[1])[1], _number(arguments[2]))

    def _conf(self, arguments: list[str]) -> ClientEvent:
        number = _number(arguments[0])
        self._subscription(number)
        if arguments[2] not in ("filtered", "unfiltered"):
            raise ProtocolError(f"{arguments[2]!r} where filtered or unfiltered is expected")
        return Configured(number, _rate(arguments[1], ("unlimited",)), arguments[2] == "filtered")

    def _msgdone(self, arguments: list[str]) -> ClientEvent:
        sequence, progressive, *response = arguments
        return MessageDone(_sequence(sequence), _number(progressive), response[0] if response else "")

    def _msgfail(self, arguments: list[str]) -> ClientEvent:
        sequence, progressive, code, text = arguments
        return MessageFailed(_sequence(sequence), _number(progressive), _number(code), text)

    # -- requests for a stream connection -------------------------------------------------------------------------

    def create_session(
        self,
        wishes: StreamWishes = PLAIN_STREAM,
        *,
        adapter_set: str | None = None,
        user: str | None = None,
        password: str | None = None,
        max_bandwidth: float | None = None,
    ) -> OutgoingRequest:
        """Ask for a new session; everything known of the one before is forgotten."""
        self.session_id = None
        self.control_link = None
        self.received = 0
        self.subscriptions.clear()
        self._adding.clear()
        self._last_subscription = 0
        self._repeats = 0
        self._begin_stream(awaits_progressive=False)
        return requests.create_session(
            wishes, adapter_set=adapter_set, user=user, password=password, max_bandwidth=max_bandwidth
        )

    def bind_session(self, wishes: StreamWishes = PLAIN_STREAM, recovery_from: int | None = None) -> OutgoingRequest:
        """Ask to go on with the session on a new stream connection; what still comes on the old one must not be fed.

        After LOOP nothing is missing. In any other case the server is told how much has been received, so that it
        sends the rest again; `recovery_from` names an earlier point.
        """
        if recovery_from is None and not self._looped:
            recovery_from = self.received
        self._begin_stream(awaits_progressive=recovery_from is not None)
        return requests.bind_session(self._session(), wishes, recovery_from)

    @property
    def is_looped(self) -> bool:
        """Whether the server has asked to bind again, and that is still to be done."""
        return self._looped

    def _begin_stream(self, awaits_progressive: bool) -> None:
        self._buffer = b""
        self._looped = False
        # A repetition that LOOP has interrupted goes on after a plain binding: only PROG sets its length anew.
        self._awaits_progressive = awaits_progressive

    def _session(self) -> str:
        if self.session_id is None:
            raise ValueError("There is no session yet")
        return self.session_id

    # -- control requests -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        group: str,
        schema: str,
        *,
        mode: str = "MERGE",
        data_adapter: str | None = None,
        snapshot: bool | int = False,
        max_frequency: float | str | None = None,
        buffer_size: int | str | None = None,
        selector: str | None = None,
        ack: bool | None = None,
    ) -> tuple[int, OutgoingRequest]:
        """A new subscription: its number in this session, and the request to send."""
        self._last_subscription += 1
        number = self._last_subscription
        request_id = self._request_id()
        request = requests.subscribe(
            self._session(),
            request_id,
            number,
            group=group,
            schema=schema,
            mode=mode,
            data_adapter=data_adapter,
            snapshot=snapshot,
            max_frequency=max_frequency,
            buffer_size=buffer_size,
            selector=selector,
            ack=ack,
        )
        self.subscriptions[number] = SubscriptionState(mode, bool(snapshot))
        self._adding[request_id] = number
        return number, request

    def unsubscribe(self, number: int, ack: bool | None = None) -> OutgoingRequest:
        return requests.control(self._session(), self._request_id(), "delete", subId=number, ack=ack)

    def reconfigure(self, number: int, max_frequency: float | str) -> OutgoingRequest:
        """A new frequency limit in updates a second, or `unlimited`."""
        return requests.control(
            self._session(), self._request_id(), "reconf", subId=number, requested_max_frequency=max_frequency
        )

    def constrain(self, max_bandwidth: float | str) -> OutgoingRequest:
        """A new bandwidth limit in kbit/s, or `unlimited`."""
        return requests.control(self._session(), self._request_id(), "constrain", requested_max_bandwidth=max_bandwidth)

    def force_rebind(self, polling_millis: int | None = None, close_socket: bool | None = None) -> OutgoingRequest:
        return requests.control(
            self._session(),
            self._request_id(),
            "force_rebind",
            polling_millis=polling_millis,
            close_socket=close_socket,
        )

    def destroy(
        self, cause_code: int | None = None, cause_message: str | None = None, close_socket: bool | None = None
    ) -> OutgoingRequest:
        return requests.control(
            self._session(),
            self._request_id(),
            "destroy",
            cause_code=cause_code,
            cause_message=cause_message,
            close_socket=close_socket,
        )

    def message(
        self,
        text: str,
        *,
        sequence: str | None = None,
        progressive: int | None = None,
        max_wait_millis: int | None = None,
        outcome: bool = True,
        ack: bool | None = None,
    ) -> OutgoingRequest:
        return requests.message(
            self._session(),
            self._request_id(),
            text,
            sequence=sequence,
            progressive=progressive,
            max_wait_millis=max_wait_millis,
            outcome=outcome,
            ack=ack,
        )

    def heartbeat(self) -> OutgoingRequest:
        return requests.heartbeat(self.session_id)

    def _request_id(self) -> str:
        self._requests += 1
        return str(self._requests)


def _number(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ProtocolError(f"{text[:MAX_ECHO]!r} where a whole number is expected")
    return int(text)


def _rate(text: str, words: tuple[str, ...]) -> float | None:
    if text in words:
        return None
    if _DECIMAL.fullmatch(text) is None:
        raise ProtocolError(f"{text[:MAX_ECHO]!r} where a decimal number is expected")
    return float(text)


def _sequence(text: str) -> str | None:
    return None if text == "*" else text
