"""Phrases of the tests of the text protocol 6.0.2: a device with the simplest possible HTTP, and its streams."""

from __future__ import annotations

from types import TracebackType

from tests.support.raw import CID, Exchange, Http, params

OK = "OK\r\n"
SYNC_ERROR = "SYNC ERROR\r\n"

# Long enough that no PROBE comes in the middle of a test.
SILENCE = 30_000


def error(code: int, message: str) -> str:
    """The block of a refusal."""
    return f"ERROR\r\n{code}\r\n{message}\r\n"


def creation(**parameters: object) -> str:
    """The parameter line of a session creation."""
    given = {"op2": "create", "adapter_set": "TEST", "keepalive_millis": SILENCE, **parameters}
    return f"{params(**given)}&LS_cid={CID}"


def table(number: int = 1, /, **changes: object) -> str:
    """The parameter line of a subscription: item `a`, field `x`, MERGE, unless changed."""
    return params(**{"op": "add", "table": number, "id": "a", "schema": "x", "mode": "MERGE", **changes})


class Tap:
    """A stream connection: its header, then lines as they come; for a refused one the header is the answer."""

    def __init__(self, http: Http) -> None:
        self.http = http
        assert http.read_head() == 200, http.read_body().decode()
        self.header: list[str] = []
        self.preamble: list[str] = []
        while line := http.read_line():
            (self.preamble if line.startswith("Preamble:") else self.header).append(line)
        assert self.header[0] == "OK", self.header

    def __enter__(self) -> Tap:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    @property
    def session(self) -> str:
        return self["SessionId"]

    def __getitem__(self, name: str) -> str:
        return dict(line.split(":", 1) for line in self.header[1:])[name]

    @property
    def names(self) -> list[str]:
        """The names of the header's lines."""
        return [line.split(":")[0] for line in self.header[1:]]

    def read_line(self) -> str:
        return self.http.read_line()

    def read(self, count: int) -> list[str]:
        return [self.http.read_line() for _ in range(count)]

    def read_rest(self) -> str:
        """Everything up to the end of the response."""
        return self.http.read_body().decode("ascii")


class Device:
    """A client of the text protocol. `method` and `version` are of HTTP."""

    def __init__(self, exchange: Exchange, method: str = "POST", version: str = "1.1") -> None:
        self.exchange = exchange
        self._method = method
        self._version = version

    def send(self, name: str, text: str) -> Http:
        """Send a request on a connection of its own."""
        http = self.exchange.http()
        if self._method == "GET":
            http.get(f"/lightstreamer/{name}.txt?{text}", self._version)
        else:
            http.post(name, text, query="", version=self._version)
        return http

    def ask(self, name: str, *lines: str) -> str:
        """The whole answer to a request, or to several."""
        with self.send(name, "\r\n".join(lines)) as http:
            status = http.read_head()
            text = http.read_body().decode("ascii")
            assert status == 200, text
            return text

    def fail(self, name: str, *lines: str) -> str:
        """The text of the HTTP error that a request ends in."""
        with self.send(name, "\r\n".join(lines)) as http:
            status = http.read_head()
            text = http.read_body().decode()
            assert status == 500, text
            return text

    def create(self, **parameters: object) -> Tap:
        return Tap(self.send("create_session", creation(**parameters)))

    def bind(self, session: str, **parameters: object) -> Tap:
        return Tap(self.send("bind_session", params(**{"session": session, "keepalive_millis": SILENCE, **parameters})))

    def control(self, session: str, **parameters: object) -> str:
        return self.ask("control", params(session=session, **parameters))

    def add(self, session: str, number: int = 1, /, **changes: object) -> str:
        return self.ask("control", f"LS_session={session}&{table(number, **changes)}")

    def message(self, session: str, **parameters: object) -> str:
        return self.ask("send_message", params(session=session, **parameters))

    def rebind(self, tap: Tap, **parameters: object) -> Tap:
        """Have the stream end with LOOP, and bind the session again."""
        assert self.control(tap.session, op="force_rebind") == OK
        assert tap.read_line() == "LOOP"
        return self.bind(tap.session, **parameters)
