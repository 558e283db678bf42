"""Calls over a fabric that drops, repeats and reorders: done once and in order, or failed as unknown."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Raw

from penstock.cluster.calling import (
    MAX_HELD,
    PATIENCE,
    REPEAT,
    Answered,
    FabricCallee,
    FabricCaller,
    Question,
)
from penstock.cluster.refusals import CallUnanswered, refusal_of
from penstock.kernel.errors import Reason, Refusal
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.fabric.calls import decode_body, encode_body
from penstock.wire.fabric.messages import Call, CallDone, CallNoted, CallRefused, decode

EPOCH = 5


def remembered(callee: FabricCallee) -> int:
    """Calls that it knows of."""
    return len(callee._begun) + len(callee._held)


class Ends:
    """A caller and a callee with nothing between them but two lists of payloads."""

    def __init__(self, max_pending: int = 100, max_kept: int = 100, max_kept_bytes: int = 10_000) -> None:
        self.now = 100.0
        self.there: list[bytes] = []
        self.back: list[bytes] = []
        self.questions: list[Question] = []
        self.answers: dict[str, Answered] = {}
        self.caller = FabricCaller("run", self.there.append, max_pending)
        self.callee = FabricCallee(self.back.append, self.questions.append, max_kept, max_kept_bytes)
        self.callee.begin("run", EPOCH)

    def ask(self, text: str, about: str = "", repeatable: bool = True, patience: float = PATIENCE) -> None:
        def done(answered: Answered) -> None:
            assert text not in self.answers, "answered twice"
            self.answers[text] = answered

        self.caller.ask(self.now, "do", encode_body(text), done, about, repeatable, patience)

    def carry(self) -> None:
        """Everything arrives."""
        while self.there or self.back:
            self.take(0)
            self.give(0)

    def take(self, index: int, keep: bool = False) -> None:
        """One payload reaches the callee."""
        if self.there:
            index %= len(self.there)
            message = decode(self.there[index] if keep else self.there.pop(index))
            assert isinstance(message, Call)
            self.callee.received(message)

    def give(self, index: int, keep: bool = False) -> None:
        if self.back:
            index %= len(self.back)
            message = decode(self.back[index] if keep else self.back.pop(index))
            assert isinstance(message, CallDone | CallRefused | CallNoted)
            self.caller.heard(self.now, message)

    def tick(self, seconds: float = REPEAT) -> None:
        self.now += seconds
        self.caller.tick(self.now)

    def begun(self) -> list[str]:
        return [decode_body(str, question.body) for question in self.questions]

    def answer(self, index: int = 0) -> None:
        question = self.questions[index]
        question.answer(encode_body(decode_body(str, question.body) + "!"))

    def outcome(self, text: str) -> str:
        answered = self.answers[text]
        return decode_body(str, answered) if isinstance(answered, Raw) else str(answered)


def test_a_question_is_answered() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a")
    ends.carry()
    assert ends.questions[0].method == "do"
    ends.answer()
    ends.carry()
    assert ends.outcome("a") == "a!"
    assert ends.caller.pending == 0


def test_a_refusal_is_raised_as_it_was() -> None:
    for refusal in (Refusal(Reason.GROUP, "No such group", -7), PushRefusal(PushReason.DEVICE, "no such device")):
        ends = Ends()
        ends.caller.begin(ends.now, EPOCH)
        ends.ask("a")
        ends.carry()
        ends.questions[0].refuse(refusal)
        ends.carry()
        answered = ends.answers["a"]
        assert isinstance(answered, CallRefused)
        raised = refusal_of(answered)
        assert type(raised) is type(refusal)
        assert vars(raised) == vars(refusal)


def test_a_reason_that_is_not_known_here_is_an_error_of_the_authority() -> None:
    assert refusal_of(CallRefused("r", 1, "TOMORROW", "x")).reason is Reason.AUTHORITY_ERROR
    assert refusal_of(CallRefused("r", 1, "push.TOMORROW", "x")).reason is PushReason.UNAVAILABLE


def test_what_is_asked_before_there_is_a_hub_is_sent_to_the_first() -> None:
    ends = Ends()
    ends.ask("a", repeatable=False)
    assert ends.there == []
    ends.caller.begin(ends.now, EPOCH)
    ends.carry()
    assert ends.begun() == ["a"]


def test_a_question_without_an_answer_is_repeated_and_done_once() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a")
    ends.there.clear()
    ends.tick(REPEAT / 2)
    assert ends.there == []
    ends.tick()
    ends.carry()
    ends.tick()
    ends.carry()
    assert ends.begun() == ["a"]
    ends.answer()
    ends.back.clear()
    ends.tick()
    ends.carry()
    assert ends.begun() == ["a"]
    assert ends.outcome("a") == "a!"


def test_a_call_that_takes_long_is_waited_for_as_long_as_somebody_works_on_it() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a")
    ends.carry()
    for _ in range(100):
        ends.tick()
        ends.carry()
    assert ends.answers == {}
    ends.answer()
    ends.carry()
    assert ends.outcome("a") == "a!"


def test_a_call_that_nobody_says_a_word_about_is_given_up_and_is_not_begun_afterwards() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a", about="S")
    late = ends.there.pop()
    ends.tick(PATIENCE)
    assert isinstance(ends.answers["a"], CallUnanswered)
    assert "unknown" in ends.outcome("a")
    ends.ask("b", about="S")
    ends.there.reverse()
    ends.carry()
    # The void call has come, so that one that is late is nothing any more.
    message = decode(late)
    assert isinstance(message, Call)
    ends.callee.received(message)
    assert ends.begun() == ["b"]
    ends.answer()
    ends.carry()
    assert ends.outcome("b") == "b!"
    assert ends.caller.pending == 0


def test_without_a_hub_a_call_fails_as_not_done() -> None:
    ends = Ends()
    ends.ask("a")
    ends.tick(PATIENCE)
    assert ends.outcome("a") == "There is no hub; this was not done"
    assert ends.caller.pending == 0


def test_another_epoch_is_asked_again_only_what_may_be_done_twice() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("message", repeatable=False)
    ends.ask("login")
    ends.caller.stop()
    ends.ask("later", repeatable=False)
    ends.there.clear()
    ends.caller.begin(ends.now, EPOCH + 1)
    assert "unknown" in ends.outcome("message")
    ends.callee.begin("run", EPOCH + 1)
    ends.carry()
    assert ends.begun() == ["login", "later"]


def test_what_is_no_more_is_not_asked_about_again() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("welcome", about="S")
    ends.ask("other", about="T")
    ends.caller.ask_only_now("S")
    ends.ask("closed", about="S")
    ends.there.clear()
    ends.caller.begin(ends.now, EPOCH + 1)
    ends.callee.begin("run", EPOCH + 1)
    ends.carry()
    assert ends.begun() == ["other", "closed"]


def test_the_same_epoch_is_asked_again_at_once() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("message", repeatable=False)
    ends.caller.stop()
    ends.there.clear()
    ends.caller.begin(ends.now, EPOCH)
    ends.carry()
    assert ends.begun() == ["message"]


def test_calls_of_another_run_or_epoch_are_not_heard() -> None:
    ends = Ends()
    for call in (Call(EPOCH - 1, "run", 1, "do", Raw(b"\xc0"), 1), Call(EPOCH, "old", 1, "do", Raw(b"\xc0"), 1)):
        ends.callee.received(call)
    assert ends.questions == []
    assert remembered(ends.callee) == 0
    assert ends.back == []


def test_an_answer_of_a_run_before_is_not_heard() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a")
    ends.caller.heard(ends.now, CallDone("old", 1, Raw(encode_body("wrong"))))
    assert ends.answers == {}


def test_another_run_forgets_what_the_old_one_asked() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a")
    ends.carry()
    ends.callee.begin("new", EPOCH)
    ends.callee.begin("new", EPOCH)
    ends.answer()
    assert ends.back == []
    assert remembered(ends.callee) == 0


def test_what_is_asked_about_one_subject_is_begun_in_order() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    for name in ("a1", "b1", "a2", "b2", "a3"):
        ends.ask(name, about=name[0])
    ends.there.reverse()
    ends.carry()
    begun = ends.begun()
    assert [name for name in begun if name[0] == "a"] == ["a1", "a2", "a3"]
    assert [name for name in begun if name[0] == "b"] == ["b1", "b2"]


def test_a_call_does_not_wait_for_one_that_has_its_answer() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a1", about="a")
    ends.carry()
    ends.answer()
    ends.carry()
    ends.ask("a2", about="a")
    ends.callee.begin("run", EPOCH + 1)
    message = decode(ends.there[0])
    assert isinstance(message, Call)
    assert (message.after, message.floor) == (0, 2)


def test_too_many_questions_are_refused_without_being_asked() -> None:
    ends = Ends(max_pending=2)
    ends.caller.begin(ends.now, EPOCH)
    for name in "abc":
        ends.ask(name)
    assert ends.outcome("c") == "2 requests wait for the hub already; this one was not sent"
    assert len(ends.there) == 2


def test_answers_are_kept_until_the_caller_has_them_and_not_too_many() -> None:
    ends = Ends(max_kept=3)
    ends.caller.begin(ends.now, EPOCH)
    for index in range(5):
        ends.ask(str(index))
    while ends.there:
        ends.take(0)
    for index in range(5):
        ends.answer(index)
    ends.back.clear()
    ends.tick()
    ends.carry()
    assert ends.begun() == ["0", "1", "2", "3", "4"]
    known = [isinstance(ends.answers[str(index)], Raw) for index in range(5)]
    assert known == [False, False, True, True, True]
    assert "no longer known" in ends.answers["0"].text  # type: ignore[union-attr]
    # The next call says that all of them are settled.
    ends.ask("next")
    ends.carry()
    assert remembered(ends.callee) == 1


def test_answers_have_a_limit_of_bytes() -> None:
    ends = Ends(max_kept_bytes=100)
    ends.caller.begin(ends.now, EPOCH)
    for name in ("a" * 60, "b" * 60):
        ends.ask(name)
    ends.take(0)
    ends.take(0)
    ends.answer(0)
    ends.answer(1)
    ends.back.clear()
    ends.tick()
    ends.carry()
    assert isinstance(ends.answers["a" * 60], CallRefused)
    assert isinstance(ends.answers["b" * 60], Raw)


def test_a_call_that_is_settled_is_not_begun_when_it_comes_once_more() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a")
    ends.take(0, keep=True)
    late = ends.there.pop()
    ends.answer()
    ends.carry()
    ends.ask("b")
    ends.carry()
    ends.there.append(late)
    ends.carry()
    assert ends.begun() == ["a", "b"]


def test_calls_that_wait_for_others_have_a_limit() -> None:
    ends = Ends()
    for number in range(2, MAX_HELD + 10):
        ends.callee.received(Call(EPOCH, "run", number, "do", Raw(b"\xc0"), 1, 1))
    assert remembered(ends.callee) == MAX_HELD


def test_a_caller_that_ends_answers_everything() -> None:
    ends = Ends()
    ends.caller.begin(ends.now, EPOCH)
    ends.ask("a")
    ends.caller.end("The server is stopping")
    assert ends.outcome("a") == "The server is stopping"
    assert ends.caller.pending == 0


ABOUT = ("", "S1", "S2")


class UnreliableFabric(RuleBasedStateMachine):
    """A caller and a callee over a fabric that does what it likes, with hubs that are replaced."""

    @initialize()
    def start(self) -> None:
        self.ends = Ends(max_pending=30, max_kept=20)
        self.epoch = EPOCH
        self.count = 0
        # Of each call: its subject, and whether it may be asked again of another hub.
        self.asked: dict[str, tuple[str, bool]] = {}
        # How often each was begun, by epoch; and in which order.
        self.done: dict[tuple[int, str], int] = {}
        self.order: dict[tuple[int, str], list[int]] = {}
        self.open: list[Question] = []
        self.answered: set[str] = set()
        self.connect()

    def connect(self) -> None:
        ends = self.ends
        ends.callee = FabricCallee(ends.back.append, self._do(self.epoch), 20, 10_000)
        ends.callee.begin("run", self.epoch)
        ends.caller.begin(ends.now, self.epoch)

    def _do(self, epoch: int) -> Callable[[Question], None]:
        def do(question: Question) -> None:
            text = decode_body(str, question.body)
            self.done[epoch, text] = self.done.get((epoch, text), 0) + 1
            assert self.done[epoch, text] == 1, "done twice"
            about, repeatable = self.asked[text]
            if not repeatable:
                assert sum(1 for _, other in self.done if other == text) == 1, "done again by another hub"
            if about:
                order = self.order.setdefault((epoch, about), [])
                assert order == sorted(order)
                assert not order or order[-1] < int(text), "begun out of order"
                order.append(int(text))
            self.open.append(question)

        return do

    @rule(about=st.sampled_from(ABOUT), repeatable=st.booleans())
    def ask(self, about: str, repeatable: bool) -> None:
        self.count += 1
        text = str(self.count)
        self.asked[text] = about, repeatable
        self.ends.ask(text, about, repeatable)

    @rule(index=st.integers(0, 50), keep=st.booleans())
    def reach_hub(self, index: int, keep: bool) -> None:
        self.ends.take(index, keep)

    @rule(index=st.integers(0, 50), keep=st.booleans())
    def reach_edge(self, index: int, keep: bool) -> None:
        self.ends.give(index, keep)

    @rule(index=st.integers(0, 50))
    def drop(self, index: int) -> None:
        for way in (self.ends.there, self.ends.back):
            if way:
                way.pop(index % len(way))

    @rule()
    def all_arrives(self) -> None:
        for _ in range(len(self.ends.there)):
            self.ends.take(0)
        for _ in range(len(self.ends.back)):
            self.ends.give(0)

    @rule(index=st.integers(0, 50), refuse=st.booleans())
    def answer(self, index: int, refuse: bool) -> None:
        if self.open:
            question = self.open.pop(index % len(self.open))
            text = decode_body(str, question.body)
            if refuse:
                question.refuse(Refusal(Reason.GROUP, text))
            else:
                question.answer(encode_body(text))

    @rule(seconds=st.sampled_from((0.5, REPEAT, PATIENCE)))
    def wait(self, seconds: float) -> None:
        self.ends.tick(seconds)

    @rule()
    def lose_way(self) -> None:
        self.ends.caller.stop()

    @rule()
    def find_way(self) -> None:
        self.ends.caller.begin(self.ends.now, self.epoch)

    @rule()
    def replace_hub(self) -> None:
        self.epoch += 1
        self.open.clear()
        self.connect()

    @invariant()
    def answers_belong_to_their_questions(self) -> None:
        for text, answered in self.ends.answers.items():
            if text in self.answered:
                continue
            self.answered.add(text)
            begun = any(other == text for _, other in self.done)
            if isinstance(answered, CallUnanswered):
                is_certain = "not done" in answered.message or "not sent" in answered.message
                assert is_certain or "unknown" in answered.message
                assert not (is_certain and begun)
            elif isinstance(answered, CallRefused):
                assert answered.text == text or "no longer known" in answered.text
                assert begun
            else:
                assert decode_body(str, answered) == text
                assert begun

    @invariant()
    def memory_is_bounded(self) -> None:
        assert self.ends.caller.pending <= 30
        assert remembered(self.ends.callee) <= self.count

    def teardown(self) -> None:
        """In the end everything has its outcome, and nothing is remembered but what the next call would settle."""
        if not hasattr(self, "ends"):
            return
        ends = self.ends
        ends.caller.begin(ends.now, self.epoch)
        for _ in range(5):
            ends.tick()
            ends.carry()
            for question in self.open:
                question.answer(encode_body(decode_body(str, question.body)))
            self.open.clear()
            ends.carry()
        self.answers_belong_to_their_questions()
        assert set(ends.answers) == set(self.asked)
        assert ends.caller.pending == 0
        ends.ask("last")
        self.asked["last"] = "", True
        ends.carry()
        assert remembered(ends.callee) == 1


TestUnreliableFabric = UnreliableFabric.TestCase
