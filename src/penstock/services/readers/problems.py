"""What a reader is answered that does not get what it asked for: a status and one sentence.

401  no token, one that is not known, or one that has expired
403  the token is for other entities
409  the journal is not the one that the reader has read before, or an older copy of it
410  retention has dropped what is asked for; `earliest` says what is left
422  a parameter is missing or wrong
503  too many readers at once; try again
"""

from __future__ import annotations

from fastapi.responses import JSONResponse


class JsonLine(JSONResponse):
    """JSON with a line end, for people who read it in a terminal."""

    def render(self, content: object) -> bytes:
        return super().render(content) + b"\n"


class ReadingProblem(Exception):
    """The text is one sentence for the person who has written the request."""

    def __init__(self, status: int, text: str, *, earliest: int | None = None, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.earliest = earliest
        self.retry_after = retry_after

    def answer(self) -> JsonLine:
        body: dict[str, object] = {"error": str(self)}
        if self.earliest is not None:
            body["earliest"] = self.earliest
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JsonLine(body, self.status, headers)
