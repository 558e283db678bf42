"""Questions with answers over a fabric that drops, repeats and reorders: each is done once, or nobody knows whether.

The caller numbers its calls and repeats each until it is answered. The callee remembers what it has answered until the
caller says that it knows. Who does what is asked, and what it means, is elsewhere. The time is an argument.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Raw

from penstock.cluster.refusals import CallUnanswered, refused
from penstock.kernel.errors import Refusal
from penstock.push.refusals import PushRefusal
from penstock.wire.fabric.messages import Call, CallDone, CallNoted, CallRefused, encode

# Seconds after which a call that is not answered is sent again.
REPEAT = 2.0

# Seconds without a word about a call after which it is given up. One that takes long is not: see `CallNoted`.
PATIENCE = 15.0

# Calls of one caller that wait for an answer; more are refused at once.
MAX_PENDING = 100_000

# Numbers between the lowest call that waits and the latest: as many are remembered by the callee. More are refused.
MAX_SPREAD = 1_000_000

# Answers that a callee keeps to give them again; of older ones it knows only that they were given.
MAX_KEPT = 50_000
MAX_KEPT_BYTES = 32 * 2**20

# Calls that came before the one that they are to be begun after; others are dropped, because they come again.
MAX_HELD = 10_000

# The method of a call that has been given up: if it was not begun, it is not to be begun any more.
VOID = ""
_NIL = b"\xc0"

Answered: TypeAlias = Raw | CallRefused | CallUnanswered

# Takes what became of a call. Must not raise.
TakeAnswer: TypeAlias = Callable[[Answered], None]


def _ignore(answered: Answered) -> None: ...


class _Pending:
    """A call that waits for its answer."""

    __slots__ = (
        "about",
        "body",
        "done",
        "due",
        "heard",
        "method",
        "number",
        "patience",
        "previous",
        "repeatable",
        "sent",
    )

    def __init__(
        self,
        number: int,
        method: str,
        body: bytes,
        done: TakeAnswer,
        about: str,
        previous: int,
        repeatable: bool,
        patience: float,
        now: float,
    ) -> None:
        self.number = number
        self.method = method
        self.body = body
        self.done = done
        self.about = about
        self.previous = previous
        self.repeatable = repeatable
        self.patience = patience
        # The epoch that it was last sent in; 0: never.
        self.sent = 0
        self.heard = now
        self.due = now


class FabricCaller:
    """The end that asks. `run` is different for every caller that the other end may ever hear."""

    def __init__(self, run: str, send: Callable[[bytes], None], max_pending: int = MAX_PENDING) -> None:
        self._run = run
        self._send = send
        self._max_pending = max_pending
        self._number = 0
        # 0 while there is nobody to ask.
        self._epoch = 0
        # In the order of their numbers; none of them is below the floor.
        self._pending: dict[int, _Pending] = {}
        self._low = 1
        # Why nothing is asked any more; empty as long as it is.
        self._ended = ""
        # The latest call that waits about each subject.
        self._latest: dict[str, int] = {}

    @property
    def pending(self) -> int:
        """Calls without an answer, with those that have been given up and may not be begun any more."""
        return len(self._pending)

    def ask(
        self,
        now: float,
        method: str,
        body: bytes,
        done: TakeAnswer,
        about: str = "",
        repeatable: bool = True,
        patience: float = PATIENCE,
    ) -> None:
        """`done` gets the answer, later or at once. Calls `about` the same are begun in the order that they are asked.

        One that is not `repeatable` is not asked again of another epoch if it may have been done in the one before.
        """
        if self._ended:
            done(CallUnanswered(self._ended))
            return
        floor = self._floor()
        if len(self._pending) >= self._max_pending or self._number - floor >= MAX_SPREAD:
            done(CallUnanswered(f"{len(self._pending)} requests wait for the hub already; this one was not sent"))
            return
        self._number += 1
        previous = self._latest.get(about, 0) if about else 0
        call = _Pending(self._number, method, body, done, about, previous, repeatable, patience, now)
        self._pending[call.number] = call
        if about:
            self._latest[about] = call.number
        self._tell(call, now)

    def begin(self, now: float, epoch: int) -> None:
        """There is somebody to ask. In another epoch than before, nobody knows what has been done."""
        self._epoch, self._ended = epoch, ""
        for call in list(self._pending.values()):
            call.heard = now
            if call.sent not in (0, epoch):
                if call.repeatable and call.method != VOID:
                    call.sent = 0
                else:
                    self._settle(call, CallUnanswered("The hub was lost; whether this was done is unknown"))
        for call in list(self._pending.values()):
            self._tell(call, now)

    def ask_only_now(self, about: str) -> None:
        """What has been asked about a subject that is no more is not asked of another epoch."""
        for call in self._pending.values():
            if call.about == about:
                call.repeatable = False

    def stop(self) -> None:
        """There is nobody to ask for now."""
        self._epoch = 0

    def end(self, text: str) -> None:
        """Nobody will answer any more, unless it begins again."""
        self._epoch = 0
        self._ended = text
        for call in list(self._pending.values()):
            self._settle(call, CallUnanswered(text))

    def heard(self, now: float, answer: CallDone | CallRefused | CallNoted) -> None:
        call = self._pending.get(answer.number)
        if call is None or answer.run != self._run:
            return
        if isinstance(answer, CallNoted):
            call.heard = now
        else:
            self._settle(call, answer.body if isinstance(answer, CallDone) else answer)

    def tick(self, now: float) -> None:
        """Repeat what is due, and give up what nobody has said a word about; called about twice a second."""
        for call in list(self._pending.values()):
            if call.method != VOID and now - call.heard >= call.patience:
                self._give_up(call, now)
            elif now >= call.due:
                self._tell(call, now)

    def _give_up(self, call: _Pending, now: float) -> None:
        if not call.sent:
            self._settle(call, CallUnanswered("There is no hub; this was not done"))
            return
        done, call.done = call.done, _ignore
        call.method, call.body = VOID, _NIL
        self._tell(call, now)
        done(CallUnanswered("The hub has not answered in time; whether this was done is unknown"))

    def _settle(self, call: _Pending, answered: Answered) -> None:
        # A call may have been settled from within another one's `done`.
        if self._pending.pop(call.number, None) is None:
            return
        if self._latest.get(call.about) == call.number:
            del self._latest[call.about]
        call.done(answered)

    def _floor(self) -> int:
        while self._low <= self._number and self._low not in self._pending:
            self._low += 1
        return self._low

    def _tell(self, call: _Pending, now: float) -> None:
        if not self._epoch:
            return
        call.sent = self._epoch
        call.due = now + REPEAT
        after = call.previous if call.previous in self._pending else 0
        floor = self._floor()
        self._send(encode(Call(self._epoch, self._run, call.number, call.method, Raw(call.body), floor, after)))


class Question:
    """A call at the end that is asked. It is answered or refused, once; anything after that is not heard."""

    __slots__ = ("_callee", "body", "method", "number", "run")

    def __init__(self, callee: FabricCallee, call: Call) -> None:
        self._callee = callee
        self.run = call.run
        self.number = call.number
        self.method = call.method
        self.body = call.body

    def answer(self, body: bytes) -> None:
        self._callee.settle(self.run, self.number, encode(CallDone(self.run, self.number, Raw(body))))

    def refuse(self, refusal: Refusal | PushRefusal) -> None:
        self._callee.settle(self.run, self.number, encode(refused(self.run, self.number, refusal)))


class FabricCallee:
    """The end that is asked by one caller. `do` begins what is asked, at once or later; it must not raise."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        do: Callable[[Question], None],
        max_kept: int = MAX_KEPT,
        max_kept_bytes: int = MAX_KEPT_BYTES,
    ) -> None:
        self._send = send
        self._do = do
        self._max_kept = max_kept
        self._max_kept_bytes = max_kept_bytes
        self._run = ""
        self._epoch = 0
        self._floor = 0
        # Calls that have begun: None until they are answered, then their answers; empty if that is no longer known.
        self._begun: dict[int, bytes | None] = {}
        # The lengths of the answers that are kept, the oldest first.
        self._kept: OrderedDict[int, int] = OrderedDict()
        self._kept_bytes = 0
        self._held: dict[int, Call] = {}

    @property
    def floor(self) -> int:
        """No call with a lower number will be begun any more."""
        return self._floor

    def begin(self, run: str, epoch: int) -> None:
        """Calls of this run are heard in this epoch, and no others."""
        if run == self._run and epoch == self._epoch:
            return
        self._run, self._epoch, self._floor = run, epoch, 0
        self._begun.clear()
        self._held.clear()
        self._kept.clear()
        self._kept_bytes = 0

    def received(self, call: Call) -> None:
        if call.run != self._run or call.epoch != self._epoch:
            return
        if call.floor > self._floor:
            self._raise_floor(call.floor)
        number = call.number
        if number < self._floor:
            return
        if number in self._begun:
            self._say_again(number)
        elif self._may_begin(call):
            self._held.pop(number, None)
            self._begin(call)
        elif number in self._held:
            self._held[number] = call
            self._send(encode(CallNoted(self._run, number)))
        elif len(self._held) < MAX_HELD:
            self._held[number] = call

    def _may_begin(self, call: Call) -> bool:
        return not call.after or call.after < self._floor or call.after in self._begun

    def _begin(self, call: Call) -> None:
        """Begin a call, and those that wait for it."""
        ready = deque([call])
        while ready:
            call = ready.popleft()
            self._begun[call.number] = None
            question = Question(self, call)
            if call.method == VOID:
                question.answer(_NIL)
            else:
                self._do(question)
            if self._held:
                followers = [held for held in self._held.values() if held.after == call.number]
                for held in followers:
                    del self._held[held.number]
                ready.extend(followers)

    def _say_again(self, number: int) -> None:
        answer = self._begun[number]
        if answer is None:
            self._send(encode(CallNoted(self._run, number)))
        elif answer:
            self._send(answer)
        else:
            lost = CallUnanswered("This was done, or refused; the answer is no longer known")
            self._send(encode(refused(self._run, number, lost)))

    def settle(self, run: str, number: int, answer: bytes) -> None:
        """For `Question`."""
        if run != self._run or self._begun.get(number, b"") is not None:
            # Answered before, or nobody waits any more.
            return
        self._begun[number] = answer
        self._kept[number] = len(answer)
        self._kept_bytes += len(answer)
        while self._kept and (len(self._kept) > self._max_kept or self._kept_bytes > self._max_kept_bytes):
            oldest, size = self._kept.popitem(last=False)
            self._kept_bytes -= size
            self._begun[oldest] = b""
        self._send(answer)

    def _raise_floor(self, floor: int) -> None:
        steps = range(self._floor, floor)
        self._floor = floor
        # Whichever is shorter: at the first call of a run that others have heard before, the steps are many.
        settled = steps if len(steps) < len(self._begun) else [number for number in self._begun if number < floor]
        for number in settled:
            self._begun.pop(number, None)
            self._kept_bytes -= self._kept.pop(number, 0)
        if self._held:
            for number in [number for number in self._held if number < floor]:
                del self._held[number]
            for held in [held for held in self._held.values() if held.after < floor]:
                # Another of them may have had it begun.
                if self._held.pop(held.number, None) is not None:
                    self._begin(held)
