"""Refusals on their way between hub and edges: what is refused at one end is raised at the other.

The reasons of push notifications have a prefix. A reason that this release does not know is an error of the authority.
"""

from __future__ import annotations

from msgspec import Raw

from penstock.kernel.errors import Reason, Refusal
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.fabric.messages import CallRefused

PUSH = "push."


class CallUnanswered(Refusal):
    """A call that has no answer, and will not get one. Its message says whether it may have been done."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.AUTHORITY_UNAVAILABLE, message)


def refused(run: str, number: int, refusal: Refusal | PushRefusal) -> CallRefused:
    if isinstance(refusal, PushRefusal):
        return CallRefused(run, number, PUSH + refusal.reason.name, refusal.text)
    return CallRefused(run, number, refusal.reason.name, refusal.message, refusal.code)


def refusal_of(answer: CallRefused) -> Refusal | PushRefusal:
    if answer.reason.startswith(PUSH):
        name = answer.reason.removeprefix(PUSH)
        known = name in PushReason.__members__
        return PushRefusal(PushReason[name] if known else PushReason.UNAVAILABLE, answer.text)
    known = answer.reason in Reason.__members__
    return Refusal(Reason[answer.reason] if known else Reason.AUTHORITY_ERROR, answer.text, answer.code)


def accepted(answer: Raw | CallRefused | CallUnanswered) -> Raw:
    """The answer to a call; raises what it was refused with, or that there is none."""
    if isinstance(answer, CallRefused):
        raise refusal_of(answer)
    if isinstance(answer, CallUnanswered):
        raise answer
    return answer
