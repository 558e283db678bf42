"""A database of push notifications that does not answer: what it raises, and what is said to those who ask."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from penstock.push.refusals import PushReason, PushRefusal
from penstock.store.errors import Closed, Ousted

# What it raises.
AWAY = (SQLAlchemyError, OSError, Closed, Ousted)
# Seconds until it is asked again.
AWAY_PAUSE = 1.0


def unavailable(text: str) -> PushRefusal:
    return PushRefusal(PushReason.UNAVAILABLE, text)


def unanswered() -> PushRefusal:
    return unavailable("the database of push notifications does not answer")


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0] or type(error).__name__
