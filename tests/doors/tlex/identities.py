"""Loaded by schemathesis, not by pytest: gives its requests tokens in turn, those of every role and none at all.

The tokens are in the variable IDENTITIES, one a line; an empty line is nobody.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import schemathesis

TOKENS = itertools.cycle(os.environ["IDENTITIES"].split("\n"))


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    token = next(TOKENS)
    if token and "X-Authorization" not in case.headers:
        case.headers["X-Authorization"] = token
