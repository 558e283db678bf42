"""Upstream messages of one session: order, duplicates and gaps per sequence; outcomes as data notifications.

What a message does is decided by the handler (the metadata adapter). Specification: TLCP chapter 2, "Message Send
Request".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.session import Session

# Outcome codes of skipped numbers, the same in both text protocols.
SKIPPED_ONE = 38
SKIPPED_SEVERAL = 39

# Outcome code of a message whose session has ended before its turn; only the one who passed it on can still be told.
NEVER_PROCESSED = 35

# Numbers of unsequenced messages remembered above the first gap; beyond it the gap counts as skipped.
MAX_REMEMBERED = 1_000


class Message:
    """One message on its way to the handler.

    Its outcome is sent to the client, if it wants a notification, and passed to `settled`: with a code for a failure.
    """

    __slots__ = ("outcome", "progressive", "sequence", "settled", "text")

    def __init__(
        self,
        text: str,
        sequence: str | None,
        progressive: int | None,
        outcome: bool,
        settled: Callable[[int | None, str], None] | None = None,
    ) -> None:
        self.text = text
        self.sequence = sequence
        self.progressive = progressive
        self.outcome = outcome
        self.settled = settled


class Sequence(Timed):
    """Messages processed one after another, by their numbers."""

    def __init__(self, name: str, owner: Messages) -> None:
        super().__init__()
        self.name = name
        # The number to be processed next, the highest one given up, and the highest whose timeout has passed.
        self.expected = 1
        self._skipped = 0
        self._forced = 0
        self._busy = False
        self._pumping = False
        self._owner = owner
        self._waiting: dict[int, Message] = {}
        self._deadlines: dict[int, float] = {}

    def submit(self, message: Message, progressive: int, deadline: float) -> None:
        if progressive < self.expected or progressive in self._waiting:
            _refuse(progressive, progressive <= self._skipped)
        self._waiting[progressive] = message
        self._deadlines[progressive] = deadline
        self._pump()

    def misses(self, progressive: int) -> bool:
        """Whether later messages wait for the one with this number."""
        return progressive == self.expected and bool(self._waiting)

    def end(self) -> list[Message]:
        """The messages that wait, and will not be processed any more."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        self._deadlines.clear()
        return waiting

    def finished(self) -> None:
        """The message being processed has its outcome: the next may go."""
        self._busy = False
        self._pump()

    def expire(self, now: float) -> None:
        for progressive, deadline in self._deadlines.items():
            if deadline <= now:
                self._forced = max(self._forced, progressive)
        self._pump()

    def _pump(self) -> None:
        # A handler may answer at once, from within deliver(): the loop goes on instead of nesting.
        if self._pumping:
            return
        self._pumping = True
        while not self._busy and self._waiting:
            message = self._waiting.pop(self.expected, None)
            if message is not None:
                del self._deadlines[self.expected]
                self.expected += 1
                self._busy = True
                self._owner.deliver(message)
            elif self.expected <= self._forced:
                self._skip_to(min(self._waiting))
            else:
                self._owner.session.kernel.set_timer(self, min(self._deadlines.values()))
                break
        self._pumping = False

    def _skip_to(self, progressive: int) -> None:
        count = progressive - self.expected
        self.expected = progressive
        self._skipped = progressive - 1
        if count == 1:
            self._owner.report_failure(
                self.name,
                progressive - 1,
                SKIPPED_ONE,
                "The specified progressive number has been skipped by timeout",
            )
        else:
            self._owner.report_failure(self.name, progressive - 1, SKIPPED_SEVERAL, str(count))


class Messages:
    """The messages of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._sequences: dict[str, Sequence] = {}
        # Unsequenced numbers: all below the mark have been seen or given up, those in the set have been seen.
        self._mark = 1
        self._given_up = 0
        self._seen: set[int] = set()

    def submit(self, message: Message, max_wait_millis: int | None) -> None:
        """Accept a message; raises a Refusal for a number that cannot be accepted any more."""
        progressive = message.progressive
        if message.sequence is None:
            if progressive is not None:
                self._check_unsequenced(progressive)
            self.deliver(message)
            return
        sequence = self._sequences.get(message.sequence)
        if sequence is None:
            sequence = self._sequences[message.sequence] = Sequence(message.sequence, self)
        longest = self.session.limits.missing_message_timeout_millis
        patience = longest if max_wait_millis is None else min(max_wait_millis, longest)
        assert progressive is not None
        sequence.submit(message, progressive, self.session.kernel.clock() + patience / 1000)

    def is_awaited(self, sequence: str | None, progressive: int | None) -> bool:
        """Whether accepted messages wait for the one with this number."""
        if sequence is None or progressive is None:
            return False
        found = self._sequences.get(sequence)
        return found is not None and found.misses(progressive)

    def end(self) -> None:
        """The session is closed: messages that still wait are settled as never processed."""
        for sequence in self._sequences.values():
            for message in sequence.end():
                if message.settled is not None:
                    message.settled(NEVER_PROCESSED, "The session has been closed")

    def _check_unsequenced(self, progressive: int) -> None:
        if progressive < self._mark or progressive in self._seen:
            _refuse(progressive, progressive <= self._given_up)
        seen = self._seen
        seen.add(progressive)
        if len(seen) > MAX_REMEMBERED:
            self._mark = min(seen)
            self._given_up = self._mark - 1
        while self._mark in seen:
            seen.remove(self._mark)
            self._mark += 1

    def deliver(self, message: Message) -> None:
        tally = self.session.kernel.tally
        tally.messages += 1
        tally.message_characters += len(message.text)
        self.session.handler.deliver(self.session, message)

    def done(self, message: Message, response: str) -> None:
        """The handler has processed the message."""
        if message.outcome and message.progressive is not None:
            self.session.notify(self.session.codec.message_done(message.sequence, message.progressive, response))
        self._finished(message, None, response)

    def failed(self, message: Message, code: int, text: str) -> None:
        """The handler has refused the message, or failed on it."""
        if message.outcome and message.progressive is not None:
            self.report_failure(message.sequence, message.progressive, code, text)
        self._finished(message, code, text)

    def report_failure(self, sequence: str | None, progressive: int, code: int, text: str) -> None:
        self.session.notify(self.session.codec.message_failed(sequence, progressive, code, text))

    def _finished(self, message: Message, code: int | None, text: str) -> None:
        if message.settled is not None:
            message.settled(code, text)
        if message.sequence is not None and not self.session.closed:
            self._sequences[message.sequence].finished()


def _refuse(progressive: int, may_be_skipped: bool) -> None:
    if may_be_skipped:
        raise Refusal(
            Reason.MESSAGE_TOO_LOW,
            f"Message number {progressive} is too low: already enqueued or already skipped by timeout",
        )
    raise Refusal(Reason.MESSAGE_DUPLICATE, f"Message number {progressive} is already enqueued")
