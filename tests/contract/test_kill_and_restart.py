"""A remote adapter is killed under load and started again: clients keep their session, and hold the right state within
five seconds of its return.
"""

from __future__ import annotations

import time

import pytest

from penstock.wire.tlcp.values import decode_values
from tests.adapters.remote.support import Client
from tests.contract.backends import REMOTE

pytestmark = pytest.mark.interop

WITHIN_SECONDS = 5.0

Fields = tuple[str | None, ...]

LOADED = [f"load{number}" for number in range(20)]


class State:
    """What a client has: the fields of MERGE items, the rows of COMMAND items, the events of DISTINCT items."""

    def __init__(self, client: Client, **fields: int) -> None:
        """`fields` is how many each subscription has: `s1=3`."""
        self.client = client
        self.values: dict[str, Fields] = {}
        self.events: list[tuple[str, Fields]] = []
        self._fields = {name[1:]: count for name, count in fields.items()}

    def read(self) -> str:
        line = self.client.socket.read_line()
        tag, _, rest = line.partition(",")
        assert tag not in ("END", "LOOP", "UNSUB", "OV"), line
        if tag == "U":
            subscription, item, tokens = rest.split(",", 2)
            key = f"{subscription},{item}"
            now = decode_values(tokens, self.values.get(key), self._fields[subscription])
            self.values[key] = now
            self.events.append((key, now))
        return line

    def read_until(self, done: str) -> None:
        """Read until a line comes that begins so."""
        while not self.read().startswith(done):
            pass


@pytest.mark.parametrize("kind", REMOTE)
def test_merge_items_under_load_are_right_again(kind: str) -> None:
    states = {item: [{"n": "0", "from": "first", "only": "first"}] for item in LOADED}
    with REMOTE[kind]() as backend, backend.server.client() as client:
        backend.kill()
        backend.start(states)
        state = State(client, s1=3)
        client.subscribe(1, " ".join(LOADED), "n from only")
        backend.reports.expect("subscribe", item=LOADED[-1])
        backend.do("pump", items=LOADED)
        while len(state.events) < 500:
            state.read()
        assert all(values[1:] == ("first", "first") for values in state.values.values())
        backend.kill()
        reported = len(backend.reports.all)
        backend.start({item: [{"n": "0", "from": "second"}] for item in LOADED})
        returned = time.monotonic()
        backend.do("pump", items=LOADED)
        while any(values[1:] != ("second", None) for values in state.values.values()):
            state.read()
        assert time.monotonic() - returned < WITHIN_SECONDS
        before = len(state.events)
        while len(state.events) < before + 200:
            state.read()
        backend.do("halt")
        backend.reports.expect("halted")
        count = next(one["count"] for one in backend.reports.all[reported:] if one["event"] == "halted")
        while any(values[0] != str(count) for values in state.values.values()):
            state.read()
        assert len(state.values) == len(LOADED)


@pytest.mark.parametrize("kind", REMOTE)
def test_tables_and_histories_are_right_again(kind: str) -> None:
    def rows(**values: str) -> list[dict[str, str | None]]:
        return [{"key": key, "command": "ADD", "x": value} for key, value in values.items()]

    with REMOTE[kind]() as backend, backend.server.client() as client:
        backend.kill()
        backend.start({"table": rows(a="1", b="2", c="3"), "history": [{"x": "1"}, {"x": "2"}]})
        state = State(client, s1=3, s2=1)
        client.subscribe(1, "table", "key command x", "COMMAND")
        state.read_until("EOS,1")
        client.subscribe(2, "history", "x", "DISTINCT")
        state.read_until("EOS,2")
        state.events.clear()
        backend.kill()
        backend.start({"table": rows(b="2", c="4", d="5"), "history": [{"x": "2"}, {"x": "3"}]})
        returned = time.monotonic()
        while len(state.events) < 4:
            state.read()
        assert time.monotonic() - returned < WITHIN_SECONDS
        assert sorted([values for key, values in state.events if key == "1,1"], key=str) == [
            ("a", "DELETE", None),
            ("c", "UPDATE", "4"),
            ("d", "ADD", "5"),
        ]
        assert [values[0] for key, values in state.events if key == "2,1"] == ["3"]
        # Newcomers and those who were there have the same.
        with backend.server.client() as second:
            newcomer = State(second, s1=3)
            second.subscribe(1, "table", "key command x", "COMMAND")
            newcomer.read_until("EOS,1")
            assert sorted([values for _, values in newcomer.events], key=str) == [
                ("b", "ADD", "2"),
                ("c", "ADD", "4"),
                ("d", "ADD", "5"),
            ]
