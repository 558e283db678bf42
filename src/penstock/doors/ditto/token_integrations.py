"""Token-based subjects of policies: which subjects a caller's token stands for, from a pattern with placeholders.

What they do to a policy is in `twins.integration`. The token has been checked when the caller was authenticated.
Upstream documentation: "Policies", action activateTokenIntegration.
"""

from __future__ import annotations

import asyncio
import re
import time

import jwt
from msgspec import UnsetType

from penstock.doors.ditto.answers import error_of
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.service import TwinService
from penstock.twins.decision import Result
from penstock.twins.integration import ACTIVATE, TokenIntegration
from penstock.twins.reasons import TwinRefusal
from penstock.wire.ditto.document import Json, expect
from penstock.wire.ditto.instant import print_instant
from penstock.wire.ditto.policy_errors import ACTION_NEEDS_TOKEN, ACTION_NOT_APPLICABLE
from penstock.wire.ditto.subject import check_subject

_PLACEHOLDER = re.compile(r"\{\{\s*(policy-entry:label|jwt:[^}\s]+|header:[^}\s]+)\s*\}\}")
_NANOS = 1_000_000_000

# Subjects that one token may stand for: a list in a claim has as many.
MAX_SUBJECTS = 20


class TokenIntegrations:
    """`pattern` has placeholders `{{ policy-entry:label }}`, `{{ jwt:CLAIM }}` and `{{ header:NAME }}`."""

    def __init__(self, service: TwinService, pattern: str) -> None:
        self._service = service
        self._pattern = pattern

    async def change(
        self, policy_id: str, label: str | None, action: str, body: Json | UnsetType, login: Login
    ) -> None:
        """Carry out an action of a caller; raises what is wrong with it."""
        if not login.credentials.is_token:
            raise ACTION_NEEDS_TOKEN.of(action)
        try:
            claims = jwt.decode(login.credentials.password, options={"verify_signature": False})
        except jwt.PyJWTError:
            raise ACTION_NEEDS_TOKEN.of(action) from None
        announcement = None if isinstance(body, UnsetType) else expect(body, dict, "/").get("announcement")
        if announcement is not None:
            check_subject({"announcement": announcement}, "")
        policy = self._service.twins.policy(policy_id)
        labels = [] if policy is None else list(policy.document["entries"]) if label is None else [label]
        subjects = {each: self._subjects(each, claims, login, action) for each in labels}
        described = f"added via action <{action}> at <{print_instant(time.time_ns())}>"
        expiry = _expiry(claims, login) if action == ACTIVATE else None
        wish = TokenIntegration(policy_id, label, subjects, expiry, described, announcement)
        done: asyncio.Future[Result | TwinRefusal] = asyncio.get_running_loop().create_future()

        def answer(result: Result | TwinRefusal) -> None:
            if not done.done():
                done.set_result(result)

        self._service.twins.integrate(wish, login.caller, answer)
        result = await done
        if isinstance(result, TwinRefusal):
            raise error_of(result) from None

    def _subjects(self, label: str, claims: Json, login: Login, action: str) -> tuple[str, ...]:
        """The pattern with its placeholders replaced; one subject for each value of a claim that is a list."""
        found = [""]
        at = 0
        for placeholder in _PLACEHOLDER.finditer(self._pattern):
            kind, _, name = placeholder[1].partition(":")
            if kind == "policy-entry":
                values: list[Json] = [label]
            elif kind == "jwt":
                claim = claims.get(name)
                values = claim if type(claim) is list else [claim]
            else:
                values = [login.credentials.client.headers.get(name.lower())]
            if any(type(value) is not str or not value for value in values):
                told = f"The token or the request has no text for '{placeholder[1]}', which the subject is made of."
                raise ACTION_NOT_APPLICABLE.of(action, description=told)
            literal = self._pattern[at : placeholder.start()]
            found = [f"{before}{literal}{value}" for before in found for value in values][:MAX_SUBJECTS]
            at = placeholder.end()
        return tuple([text + self._pattern[at:] for text in found])


def _expiry(claims: Json, login: Login) -> str:
    """When the token expires; one that never does stands for an hour."""
    given = claims.get("exp")
    if type(given) in (int, float):
        return print_instant(int(given) * _NANOS)
    seconds = 3600 if login.time_to_live is None else int(login.time_to_live)
    return print_instant((int(time.time()) + seconds) * _NANOS)
