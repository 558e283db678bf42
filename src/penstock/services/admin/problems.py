"""Why a request to administer the server is turned down: a status, and a sentence that says what was wrong.

Not here: how it is answered (`guard`, `routes`).
"""

from __future__ import annotations


class AdminProblem(Exception):
    """Nothing has changed. `retry_after` is in seconds."""

    def __init__(self, status: int, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers: dict[str, str] = {"Cache-Control": "no-store"}
        if status == 401:
            self.headers["WWW-Authenticate"] = 'Basic realm="penstock", charset="UTF-8", Bearer realm="penstock"'
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)


def unknown(what: str) -> AdminProblem:
    return AdminProblem(404, what)
