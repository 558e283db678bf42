"""A trigger: the condition of a push subscription, checked once and evaluated on each update of its flow.

Read next: `parser`. Conditions that compare one number with a constant need no evaluation: `penstock.push.thresholds`.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.push import arguments
from penstock.push.pace import Values
from penstock.push.refusals import PushReason, PushRefusal
from penstock.push.thresholds import Threshold
from penstock.push.trigger.failure import NoResult, Wrong
from penstock.push.trigger.operand import Operand
from penstock.push.trigger.parser import parse
from penstock.push.trigger.pattern import RegularExpression

# Characters of a trigger.
MAX_LENGTH = 10_000


class Trigger:
    """An expression whose arguments are indexed; `text` as it is stored and shown."""

    __slots__ = ("_run", "text", "threshold")

    def __init__(self, text: str, expression: Operand) -> None:
        self.text = text
        self._run = expression.run
        # If it is a plain comparison of one field with a constant: the index does then what `matches` does.
        self.threshold: Threshold | None = expression.threshold

    @classmethod
    def compile(cls, text: str, field_count: int, accept: Sequence[RegularExpression] | None) -> Trigger:
        """Raise PushRefusal for what is not a trigger, or is not accepted.

        `accept` are the patterns of the application, of which one must match the whole text; if there are none, no
        trigger is accepted. None is for a trigger out of the store, which was accepted before.
        """
        if not text.strip():
            raise PushRefusal(PushReason.TRIGGER, "the trigger is empty; it must be an expression that is a boolean")
        if len(text) > MAX_LENGTH:
            raise PushRefusal(PushReason.TOO_LONG, f"the trigger has {len(text)} characters; {MAX_LENGTH} are allowed")
        if accept is not None:
            _check_accepted(text, accept)
        arguments.located("trigger", lambda: arguments.convert(text, {}, field_count))
        try:
            return cls(text, parse(text))
        except Wrong as wrong:
            raise PushRefusal(PushReason.TRIGGER, f"trigger, character {wrong.place + 1}: {wrong.text}") from None

    def matches(self, values: Values) -> bool:
        """Whether it is true. Where Java would throw it has no result: that is false."""
        try:
            result: bool = self._run(values)
        except NoResult:
            return False
        return result


def _check_accepted(text: str, accept: Sequence[RegularExpression]) -> None:
    if not accept:
        raise PushRefusal(PushReason.TRIGGER, "the application accepts no triggers: none are configured for it")
    if not any(pattern.matches(text) for pattern in accept):
        raise PushRefusal(
            PushReason.TRIGGER, f"the trigger matches none of the application's {len(accept)} accepted patterns"
        )
