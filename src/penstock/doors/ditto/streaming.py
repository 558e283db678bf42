"""The streaming subscriptions of one connection, each with the history it reads, or the results of its search, as fast
as the client asks for it and the socket takes it.

Who may send what, and when, is in `wire.ditto.subscriptions`; where histories and results come from is in `service`. A
history is looked up at the first request, and ends where it ended at that moment. Specification: "Interaction pattern".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.past import PastRow
from penstock.doors.ditto.ports import Past, ResultPages, TwinServicePort, Work
from penstock.doors.ditto.service import as_answer
from penstock.wire.ditto.envelope import Headers, duration_header
from penstock.wire.ditto.errors import HISTORY_ERRORS, INTERNAL, DittoError, SubscriptionErrors
from penstock.wire.ditto.search import SearchCommand, SearchSubscribe, Selection
from penstock.wire.ditto.streaming import Cancel, DemandRequest, StreamCommand, StreamEvent, SubscribeForPersistedEvents
from penstock.wire.ditto.subscriptions import HistorySubscription, Subscriptions
from penstock.wire.ditto.twin import EventItems

# Seconds that finding a history may take, and then its first events unless they are filtered; beyond it is error 500.
# The header `timeout` of the subscription overrides it.
FIRST_SECONDS = 15.0

# Items sent at once, and about how many bytes of them: others get a turn in between.
SOME_ITEMS = 512
SOME_BYTES = 262_144


class HistoryStreams:
    """`say` sends messages; `clock` returns seconds. Call `run` when it is `due`.

    With `errors` of searches it is for those.
    """

    def __init__(
        self,
        service: TwinServicePort,
        login: Login,
        say: Callable[[list[bytes]], None],
        work: Work,
        clock: Callable[[], float],
        errors: SubscriptionErrors = HISTORY_ERRORS,
    ) -> None:
        self._service = service
        self.login = login
        self._say = say
        self._work = work
        self._clock = clock
        self._subscriptions = Subscriptions(errors=errors)
        self._streams: dict[str, _Stream] = {}
        self._writable = True

    # -- what a client sends ---------------------------------------------------------------------------------------

    def take(self, command: StreamCommand | SearchCommand) -> None:
        """Raises the error to answer with."""
        now = self._clock()
        if isinstance(command, SubscribeForPersistedEvents | SearchSubscribe):
            _patience(command.headers)
            self._tell(self._subscriptions.subscribe(command, now))
        elif isinstance(command, DemandRequest):
            self._request(command, now)
        else:
            self._cancel(command, now)

    def _request(self, command: DemandRequest, now: float) -> None:
        found = self._subscriptions.request(command, now)
        if not isinstance(found, HistorySubscription):
            self._close(found.subscription)
            self._tell(found)
            return
        stream = self._streams.get(found.id)
        if stream is None:
            stream = self._streams[found.id] = _Stream(found, now)
            self._begin(stream)
        else:
            self._pump(stream)

    def _cancel(self, command: Cancel, now: float) -> None:
        found = self._subscriptions.cancel(command, now)
        if isinstance(found, HistorySubscription):
            self._close(found.id)
        elif found is not None:
            self._tell(found)

    # -- called from outside ---------------------------------------------------------------------------------------

    def set_writable(self, writable: bool) -> None:
        """Whether the socket takes more."""
        self._writable = writable
        if writable:
            for stream in list(self._streams.values()):
                self._pump(stream)

    def due(self) -> float | None:
        """When to call `run`, at the latest."""
        times = [stream.first_by for stream in self._streams.values() if stream.first_by is not None]
        deadline = self._subscriptions.deadline()
        if deadline is not None:
            times.append(deadline)
        return min(times, default=None)

    def run(self) -> None:
        now = self._clock()
        for stream in list(self._streams.values()):
            if stream.first_by is not None and now >= stream.first_by:
                self._fail(stream, INTERNAL.of(description=f"The history was not found within {stream.patience:g} s."))
            elif stream.is_reading:
                # A search does not count as silence.
                stream.subscription.since = now
        for subscription, failed in self._subscriptions.expire(now):
            self._close(subscription.id)
            self._tell(failed)

    def close(self) -> None:
        """The connection is gone, and all subscriptions with it."""
        for number in list(self._streams):
            self._close(number)

    # -- one history -----------------------------------------------------------------------------------------------

    def _begin(self, stream: _Stream) -> None:
        """The first request: check whether the client may read the history, and find out how long it is."""
        subscription = stream.subscription
        selection = subscription.selection
        if isinstance(selection, Selection):
            self._work.run(self._service.search(selection, self.login), partial(self._opened, stream))
        else:
            opening = self._service.history_of(subscription.topic, selection, self.login)
            self._work.run(opening, partial(self._opened, stream))

    def _opened(self, stream: _Stream, found: Past | ResultPages | Exception) -> None:
        if isinstance(found, Exception):
            self._broken(stream, found)
        elif stream.is_closed:
            found.close()
        else:
            stream.past = found
            stream.first_by = None
            self._pump(stream)

    def _pump(self, stream: _Stream) -> None:
        """One turn: send what is wanted and available, and fetch ahead, so that the end is known in time."""
        if stream.is_closed or stream.is_reading or stream.is_due or stream.past is None or not self._writable:
            return
        subscription = stream.subscription
        messages: list[bytes] = []
        count = min(subscription.wanted, stream.left, SOME_ITEMS)
        if count:
            messages = subscription.next_frames(stream.take(count), self._clock())
        if not stream.left:
            if stream.is_exhausted:
                complete = subscription.complete(self._clock())
                if complete is not None:
                    messages.append(complete.envelope().to_bytes())
                self._close(subscription.id)
            else:
                # Even if nothing is wanted, because the end is announced without a request.
                stream.is_reading = True
                if not stream.has_begun and subscription.selection.filter is None:
                    stream.first_by = self._clock() + stream.patience
                self._work.run(stream.past.next(), partial(self._read, stream))
        elif subscription.wanted:
            stream.is_due = True
            self._work.later(partial(self._go_on, stream))
        if messages:
            self._say(messages)

    def _go_on(self, stream: _Stream) -> None:
        stream.is_due = False
        self._pump(stream)

    def _read(self, stream: _Stream, found: list[PastRow] | list[bytes] | Exception | None) -> None:
        stream.is_reading = False
        if stream.is_closed:
            return
        if isinstance(found, Exception):
            self._broken(stream, found)
            return
        stream.first_by = None
        stream.has_begun = True
        stream.give(found)
        self._pump(stream)

    def _broken(self, stream: _Stream, error: Exception) -> None:
        """There is no such history, or reading it failed."""
        self._fail(stream, answer_to(error, str(stream.subscription.topic)))

    def _fail(self, stream: _Stream, error: DittoError) -> None:
        failed = stream.subscription.fail(error, self._clock())
        self._close(stream.subscription.id)
        if failed is not None:
            self._tell(failed)

    def _close(self, number: str) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.close()

    def _tell(self, event: StreamEvent) -> None:
        self._say([event.envelope().to_bytes()])


class _Stream:
    """A subscription and how far its history has been read."""

    def __init__(self, subscription: HistorySubscription, now: float) -> None:
        self.subscription = subscription
        self.patience = _patience(subscription.origin)
        # When the history, and then its first events, must be there; None if they are, or are not being read.
        self.first_by: float | None = now + self.patience
        self.has_begun = False
        self.past: Past | ResultPages | None = None
        # The end has been read.
        self.is_exhausted = False
        # More is being read; a callback will follow.
        self.is_reading = False
        # Another turn is scheduled.
        self.is_due = False
        self.is_closed = False
        self._items = EventItems(subscription.topic, subscription.origin)
        # Events, or pages of a search, which are ready to be sent.
        self._rows: list[PastRow] | list[bytes] = []
        self._at = 0

    @property
    def left(self) -> int:
        """Events that were read and not sent."""
        return len(self._rows) - self._at

    def take(self, most: int) -> list[bytes]:
        """The next ones as items."""
        items: list[bytes] = []
        size = 0
        item_of = self._items.item
        for row in self._rows[self._at : self._at + most]:
            item = row if isinstance(row, bytes) else item_of(*row)
            items.append(item)
            size += len(item)
            if size >= SOME_BYTES:
                break
        self._at += len(items)
        return items

    def give(self, rows: list[PastRow] | list[bytes] | None) -> None:
        self._rows, self._at = rows or [], 0
        self.is_exhausted = rows is None

    def close(self) -> None:
        self.is_closed = True
        self._rows, self._at = [], 0
        if self.past is not None:
            self.past.close()


def _patience(headers: Headers) -> float:
    """The timeout of a subscription with these headers; raises `header.invalid`."""
    return duration_header(headers, "timeout", FIRST_SECONDS)


def answer_to(error: Exception, what: str) -> DittoError:
    """The answer to an exception that came as a result: it is raised again, so that the log has its traceback."""
    try:
        raise error
    except Exception as raised:
        return as_answer(raised, what)
