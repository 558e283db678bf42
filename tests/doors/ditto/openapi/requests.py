"""Loaded by schemathesis, not by pytest: lets its requests get far, to what exists, and wait for nobody.

What is valid by its form is replaced by what is there, three times of four; what is not stays as it is.
"""

from __future__ import annotations

import itertools
import os
import re
from typing import Any

import schemathesis

THERE = {
    "thing_id": "org.example:lamp",
    "policy_id": "org.example:lamp",
    "feature_id": "f",
    "label": "OWNER",
    "path": "a",
    "subject_id": "nginx:alice",
    "resource": "thing:/",
    "import_id": "org.example:roles",
    "connection_id": "broker",
}
VALID = re.compile(r"([a-z]*:)?[^\x00-\x1f\x7f-\xff/]+")
TURNS = itertools.count()


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    given = case.path_parameters
    is_kept = next(TURNS) % 4 == 0 or (case.method == "DELETE" and case.operation.path == "/policies/{policy_id}")
    for name, value in list(given.items()):
        if not is_kept and isinstance(value, str) and VALID.fullmatch(value) and not value.startswith(("imp", "ns")):
            given[name] = THERE.get(name, value)
    timeout = case.query.get("timeout")
    is_right = timeout is None or re.fullmatch(r"[0-9]{1,9}(ms|s|m)?", str(timeout))
    if is_right and case.operation.path.startswith(("/things", "/policies")):
        case.query["timeout"] = "20ms"
    if case.operation.path.startswith("/connections"):
        # Nothing on the network is asked.
        case.query.pop("dry-run", None)
        case.headers["Authorization"] = os.environ["ADMINISTRATOR"]
    else:
        case.headers["Authorization"] = os.environ["USER_OF_TWINS"]
