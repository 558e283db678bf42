"""The journal at the API port: what a reader gets, what it is refused, and that it takes bounded memory."""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from penstock.journal.record import SCHEMA
from penstock.journal.retention import Retention
from penstock.journal.selection import EventSelection
from penstock.services.readers import passage, routes
from tests.pipeline.test_source import damage
from tests.pipeline.world import NOON, SECOND, held, make_journal, some
from tests.support.journal_server import NARROW_TOKEN, TOKEN, JournalServer

# Seconds for what happens on other threads.
PATIENCE = 30.0


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JournalServer]:
    """Sequence N is of item-{N % 4}, N seconds after noon."""
    with JournalServer(tmp_path_factory.mktemp("hundred")) as server:
        server.append(some(100), frame=10)
        yield server


def read(body: bytes) -> tuple[pa.Table, list[int]]:
    """The rows of an answer, and how far each batch says that it is."""
    with pa.ipc.open_stream(body) as stream:
        found = list(stream.iter_batches_with_custom_metadata())
    return (
        pa.Table.from_batches([batch for batch, _ in found], SCHEMA),
        [int(about[passage.THROUGH]) for _, about in found],
    )


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- the position ---------------------------------------------------------------------------------------------------


def test_the_position_has_both_ends_and_says_which_journal_it_is(hundred: JournalServer) -> None:
    status, answer = hundred.ask("", ("sequence", 7))
    assert status == 200
    assert (answer["earliest"], answer["latest"]) == (1, 100)
    assert answer["salts"]["7"] == answer["salts"]["100"] is not None
    assert "at" not in answer
    assert answer["all"] is True
    assert hundred.ask("", token=NARROW_TOKEN)[1]["all"] is False


def test_another_journal_has_other_salts(hundred: JournalServer, tmp_path: Path) -> None:
    with JournalServer(tmp_path) as other:
        other.append(some(100), frame=10)
        assert other.ask("")[1]["salts"] != hundred.ask("")[1]["salts"]


def test_the_position_of_a_time(hundred: JournalServer) -> None:
    assert hundred.ask("", ("time", NOON + 42 * SECOND))[1]["at"] == 42
    assert hundred.ask("", ("time", NOON + 999 * SECOND))[1]["at"] == 101
    assert hundred.ask("", ("time", -5))[1]["at"] == 1


# -- events -----------------------------------------------------------------------------------------------------------


def test_a_range_has_the_rows_of_the_journal(hundred: JournalServer) -> None:
    status, body = hundred.get("/events", ("first", 1), ("last", 100))
    table, through = read(body)
    assert status == 200
    assert table.equals(held(hundred.journal_path))
    assert through[-1] == 100
    assert through == sorted(through)


def test_a_range_may_begin_and_end_anywhere(hundred: JournalServer) -> None:
    table, through = read(hundred.get("/events", ("first", 7), ("last", 12))[1])
    assert table.column("sequence").to_pylist() == [7, 8, 9, 10, 11, 12]
    assert through[-1] == 12


@pytest.mark.parametrize(
    ("parameters", "selection"),
    [
        ([("entity", "item-1")], EventSelection(("item-1",))),
        ([("entity", "item-1"), ("entity", "*-2")], EventSelection(("item-1", "*-2"))),
        ([("kind", "clear")], EventSelection(kinds=("clear",))),
        (
            [("since", NOON + 3 * SECOND), ("until", NOON + 9 * SECOND)],
            EventSelection(since=NOON + 3 * SECOND, until=NOON + 9 * SECOND),
        ),
    ],
)
def test_the_journal_selects(
    hundred: JournalServer, parameters: list[tuple[str, object]], selection: EventSelection
) -> None:
    table, through = read(hundred.get("/events", ("first", 1), ("last", 100), *parameters)[1])
    assert table.equals(held(hundred.journal_path, selection))
    assert through[-1] == 100


def test_a_range_says_how_far_it_is_where_nothing_is_wanted(
    hundred: JournalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage, "STEP", 30)
    table, through = read(hundred.get("/events", ("first", 1), ("last", 100), ("kind", "clear"))[1])
    assert table.num_rows == 0
    assert through == [30, 60, 90, 100]


def test_a_plan_divides_a_range_without_gap_or_overlap(tmp_path: Path) -> None:
    with JournalServer(tmp_path) as server:
        server.append(some(20_000), frame=500)
        status, answer = server.ask("/plan", ("first", 11), ("last", 19_000), ("parts", 3))
        parts = answer["parts"]
        assert status == 200
        assert len(parts) == 3
        assert (parts[0]["first"], parts[-1]["last"]) == (11, 19_000)
        assert [part["first"] for part in parts[1:]] == [part["last"] + 1 for part in parts[:-1]]
        salts = server.ask("", ("sequence", 11))[1]["salts"]
        assert parts[0]["salts"][0] == [11, salts["11"]]


# -- rights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/plan", "/events"])
@pytest.mark.parametrize("token", [None, "not-a-token-of-anybody"])
def test_without_a_valid_token_nothing_is_told(hundred: JournalServer, path: str, token: str | None) -> None:
    before = hundred.reading.refused
    status, answer = hundred.ask(path, ("first", 1), ("last", 100), ("parts", 1), token=token)
    assert status == 401
    assert "100" not in str(answer)
    assert hundred.reading.refused == before + 1


def test_a_reader_sees_its_own_entities_only(hundred: JournalServer) -> None:
    allowed = held(hundred.journal_path, EventSelection(("item-1", "item-3")))
    parameters = ("first", 1), ("last", 100)
    table, through = read(hundred.get("/events", *parameters, token=NARROW_TOKEN)[1])
    assert table.equals(allowed)
    assert through[-1] == 100
    table, _ = read(hundred.get("/events", *parameters, ("entity", "item-*"), token=NARROW_TOKEN)[1])
    assert table.equals(allowed)
    table, _ = read(hundred.get("/events", *parameters, ("entity", "item-3"), token=NARROW_TOKEN)[1])
    assert table.equals(held(hundred.journal_path, EventSelection(("item-3",))))


@pytest.mark.parametrize("path", ["/plan", "/events"])
def test_a_reader_that_asks_for_the_entities_of_others_is_refused(hundred: JournalServer, path: str) -> None:
    asked = ("first", 1), ("last", 100), ("parts", 1), ("entity", "item-1"), ("entity", "item-2")
    assert hundred.ask(path, *asked, token=NARROW_TOKEN) == (
        403,
        {"error": "the reader narrow has no right to read item-2; its entities are item-1, item-3*"},
    )


def test_who_needs_all_of_some_entities_is_refused_without_the_right_to_all(hundred: JournalServer) -> None:
    assert hundred.ask("", ("all_of", "item-3*"), token=NARROW_TOKEN)[0] == 200
    assert hundred.ask("", ("all_of", "item-*"), token=NARROW_TOKEN) == (
        403,
        {"error": "the reader narrow has no right to read all of item-*; its entities are item-1, item-3*"},
    )


def test_a_token_that_ends_in_the_middle_cuts_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expires = time.time() + 3600
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
    readers = f'[journal.readers.short]\ntoken = "{TOKEN}"\nentities = ["*"]\nexpires = "{moment}"\n'
    with JournalServer(tmp_path, readers) as server:
        server.append(some(100), frame=10)
        monkeypatch.setattr(passage, "STEP", 10)
        server.reading._clock = lambda: expires
        with pytest.raises(http.client.IncompleteRead) as cut:
            server.get("/events", ("first", 1), ("last", 100))
        with pytest.raises((pa.ArrowInvalid, AssertionError)):
            assert read(cut.value.partial)[1][-1] == 100
        server.reading._readers._clock = lambda: expires
        status, answer = server.ask("/events", ("first", 11), ("last", 100))
        assert (status, answer["error"][:43]) == (401, "the token of the reader short expired at 20")
        assert server.reading.streams == 0


# -- another journal, and what is gone ------------------------------------------------------------------------------


def test_a_range_of_another_journal_is_refused(hundred: JournalServer) -> None:
    salt = hundred.ask("")[1]["salts"]["100"]
    asked = ("first", 1), ("last", 100)
    assert hundred.get("/events", *asked, ("salt", f"100:{salt}"))[0] == 200
    status, answer = hundred.ask("/events", *asked, ("salt", f"1:{salt}"), ("salt", f"100:{salt ^ 1}"))
    assert (status, answer["error"]) == (409, "the journal has another segment for sequence 100 than it had before")
    status, answer = hundred.ask("/events", ("first", 1), ("last", 101))
    assert (status, answer["error"]) == (409, "sequence 101 is asked for, but the journal ends at 100")


def test_what_retention_dropped_is_told_with_what_is_left(tmp_path: Path) -> None:
    with JournalServer(tmp_path, overrides={"journal.segment_bytes": 65_536}) as server:
        server.append(some(5_000), frame=100)
        server.journal.retain(Retention(None, 1), 5_000)
        earliest = server.ask("")[1]["earliest"]
        assert earliest > 1
        for path in ("/plan", "/events"):
            status, answer = server.ask(path, ("first", 1), ("last", 5_000), ("parts", 1))
            assert status == 410
            assert answer["earliest"] == earliest
            assert answer["error"].startswith("sequence 1 was dropped by retention")
        assert read(server.get("/events", ("first", earliest), ("last", 5_000))[1])[0].num_rows == 5_001 - earliest


def test_damage_is_told_with_the_batch_after_it(tmp_path: Path) -> None:
    path = make_journal(tmp_path / "data" / "journal", [("a", "update", f"value-{n}-") for n in range(1, 31)], frame=10)
    damage(path, 15)
    with JournalServer(tmp_path) as server:
        _, body = server.get("/events", ("first", 1), ("last", 30))
    with pa.ipc.open_stream(body) as stream:
        told = [about.get(passage.DAMAGE) for _, about in stream.iter_batches_with_custom_metadata()]
    (found,) = [json.loads(bytes(each)) for each in told if each is not None]
    assert [(each["first"], each["last"]) for each in found] == [(11, 20)]
    table, through = read(body)
    assert table.column("sequence").to_pylist() == [*range(1, 11), *range(21, 31)]
    assert through[-1] == 30


WRONG = [
    ("/events", [("last", 5)], "first is ''; expected a whole number from 1 to 9007199254740992"),
    ("/events", [("first", 0), ("last", 5)], "first is '0'; expected a whole number from 1 to 9007199254740992"),
    ("/events", [("first", "٣"), ("last", 5)], "first is '٣'; expected a whole number from 1 to 9007199254740992"),
    ("/events", [("first", 7), ("last", 5)], "first is 7, which is after last, 5"),
    ("/events", [("first", 1), ("last", 5), ("salt", "x")], "salt is 'x'; expected"),
    ("/plan", [("first", 1), ("last", 5)], "parts is ''; expected a whole number from 1 to 10000"),
    ("", [("time", "noon")], "time is 'noon'; expected"),
    ("", [("sequence", 1)] * 101, "sequence is given 101 times; expected at most 100"),
]


@pytest.mark.parametrize(("path", "parameters", "problem"), WRONG)
def test_a_wrong_parameter_is_named(
    hundred: JournalServer, path: str, parameters: list[tuple[str, object]], problem: str
) -> None:
    status, answer = hundred.ask(path, *parameters)
    assert status == 422
    assert answer["error"].startswith(problem)


# -- pressure ---------------------------------------------------------------------------------------------------------


def stalled(server: JournalServer, last: int) -> socket.socket:
    """A reader that asks and then reads nothing; its system takes as little as possible."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    peer.connect((server.host, server.api_port))
    head = f"GET /api/journal/events?{urlencode({'first': 1, 'last': last})} HTTP/1.1\r\nHost: x\r\n"
    peer.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
    return peer


def noise(count: int) -> list[tuple[str, str, str | None]]:
    """Events that do not compress well."""
    chance = random.Random(7)
    return [("item", "update", chance.randbytes(500).hex()) for _ in range(count)]


def test_a_reader_that_reads_nothing_makes_the_server_read_no_more(tmp_path: Path) -> None:
    with JournalServer(tmp_path) as server:
        # Ten batches of some eight megabytes.
        server.append(noise(80_000), frame=2_000)
        peer = stalled(server, 80_000)
        wait_for(lambda: server.reading.streams == 1)
        # Another reader gets everything meanwhile, so that the first would have had time for all of it.
        table, _ = read(server.get("/events", ("first", 1), ("last", 80_000))[1])
        assert table.num_rows == 80_000
        assert server.reading.streams == 1
        peer.close()
        wait_for(lambda: server.reading.streams == 0)
        # Of the first only what fits between server and reader; the other has had all of it.
        assert server.reading.sent_events < 80_000 + 50_000


def test_a_reader_that_reads_nothing_for_too_long_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "STALLED_SECONDS", 0.2)
    with JournalServer(tmp_path) as server:
        server.append(noise(40_000), frame=2_000)
        peer = stalled(server, 40_000)
        wait_for(lambda: server.reading.streams == 1)
        wait_for(lambda: server.reading.streams == 0)
        with peer:
            peer.settimeout(PATIENCE)
            received = b""
            with suppress(ConnectionResetError):
                while data := peer.recv(1 << 20):
                    received += data
        assert not received.endswith(b"0\r\n\r\n"), "that would be the end of a complete answer"


def test_one_range_too_many_is_asked_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_STREAMS", 1)
    with JournalServer(tmp_path) as server:
        server.append(noise(40_000), frame=2_000)
        with stalled(server, 40_000):
            wait_for(lambda: server.reading.streams == 1)
            status, answer = server.ask("/events", ("first", 1), ("last", 5))
            assert (status, answer["error"]) == (503, "1 ranges are being read, which is the most")
        wait_for(lambda: server.reading.streams == 0)
        assert server.get("/events", ("first", 1), ("last", 5))[0] == 200


def test_a_server_that_stops_does_not_wait_for_its_readers(tmp_path: Path) -> None:
    server = JournalServer(tmp_path)
    with server:
        server.append(noise(40_000), frame=2_000)
        with stalled(server, 40_000):
            wait_for(lambda: server.reading.streams == 1)
            server.stop()


def test_a_server_without_readers_has_no_such_route(tmp_path: Path) -> None:
    with JournalServer(tmp_path, readers="") as server:
        assert server.get("")[0] == 404
