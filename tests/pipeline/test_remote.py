"""The journal over the network, driven as Spark drives it, without a JVM: the same as a directory, whatever breaks."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.history.typed_table import TableColumn, TypedTable
from penstock.journal.errors import Expired
from penstock.journal.retention import Retention
from penstock.pipeline import reports
from penstock.pipeline.errors import BadOption
from penstock.pipeline.options import lake_options
from penstock.pipeline.remote import (
    JournalUnreachable,
    RemoteError,
    RemoteJournal,
    RemoteJournalAddress,
    TokenRefused,
)
from penstock.pipeline.schema import EVENTS, table_schema
from penstock.pipeline.source import JournalSource, SparkJournalReader, SparkJournalStreamReader
from penstock.services.readers import passage
from tests.pipeline.test_source import batch, damage, read, rest, sequences, stream
from tests.pipeline.world import NOON, SECOND, make_journal, some
from tests.support.journal_server import NARROW_TOKEN, TOKEN, JournalServer
from tests.support.lake_store import lake_in
from tests.support.object_store import ObjectStore
from tests.support.tls import CERTIFICATES

GONE = "a-token-that-nobody-has"


def options(server: JournalServer | str, **more: str) -> dict[str, str]:
    return {"server": server if isinstance(server, str) else server.api, "token": TOKEN, **more}


def batch_of(server: JournalServer | str, **more: str) -> SparkJournalReader:
    reader = JournalSource(options(server, **more)).reader(EVENTS)
    assert isinstance(reader, SparkJournalReader)
    return reader


def stream_of(server: JournalServer | str, **more: str) -> SparkJournalStreamReader:
    reader = JournalSource(options(server, **more)).streamReader(EVENTS)
    assert isinstance(reader, SparkJournalStreamReader)
    return reader


def closed_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JournalServer]:
    """Ten events: sequence N is of item-{N % 4}, N seconds after noon; the odd ones are snapshots."""
    kinds = ("update", "snapshot")
    events = [(f"item-{n % 4}", kinds[n % 2], str(n), NOON + n * SECOND) for n in range(1, 11)]
    with JournalServer(tmp_path_factory.mktemp("ten")) as server:
        server.append(events, frame=3)
        yield server


# -- the same as the directory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"startingOffset": "4"},
        {"startingOffset": "latest"},
        {"startingOffset": "4", "endingOffset": "6"},
        {"startingOffset": "2023-11-14T22:13:24Z", "endingOffset": "2023-11-14T22:13:27Z"},
        {"entities": "item-1,item-2"},
        {"entities": "item-?", "kinds": "snapshot"},
        {"kinds": "clear"},
    ],
)
def test_a_batch_read_gives_the_rows_of_the_directory(ten: JournalServer, more: dict[str, str]) -> None:
    here, there = batch(ten.journal_path, **more), batch_of(ten, **more)
    assert sequences(there) == sequences(here)
    assert rows(there) == rows(here)


def rows(reader: SparkJournalReader) -> list[dict[str, object]]:
    return [row for share in reader.partitions() for table in reader.read(share) for row in table.to_pylist()]


def test_a_small_batch_of_a_typed_table_is_read_by_the_tasks(tmp_path: Path) -> None:
    """As in a query of SQL over the network: of a server there is nothing to read along with the plan."""
    with JournalServer(tmp_path) as server, ObjectStore() as store:
        server.append([(f"PLANT/READINGS/reading.{n}", "update", f'{{"celsius":"{n}"}}', NOON) for n in range(5)])
        table = TypedTable("plant.readings", "PLANT", "READINGS", (TableColumn("celsius", "int", "celsius"),))
        given = options(server, table=table.encoded(), **lake_options(lake_in(store)))
        reader = JournalSource(given).streamReader(table_schema(table))
        assert isinstance(reader, SparkJournalStreamReader)
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        shares = reader.partitions(start, end)
        assert reader.getCache(start, end) is None
        found = [n for share in shares for part in reader.read(share) for n in part.column("celsius").to_pylist()]
        assert found == list(range(5))


def test_offsets_are_those_of_the_directory(ten: JournalServer) -> None:
    """So that a query may go on over the network where it stopped on the disk, and the other way."""
    here, there = stream(ten.journal_path), stream_of(ten)
    assert there.initialOffset() == here.initialOffset()
    assert there.reportLatestOffset() == here.reportLatestOffset()
    limit = here.getDefaultReadLimit()
    assert there.latestOffset(there.initialOffset(), limit) == here.latestOffset(here.initialOffset(), limit)


def test_a_stream_gives_each_event_once_as_the_journal_grows(tmp_path: Path) -> None:
    with JournalServer(tmp_path) as server:
        server.append(some(7))
        reader = stream_of(server)
        offset, found = rest(reader, reader.initialOffset())
        assert found == list(range(1, 8))
        assert rest(reader, offset) == (offset, [])
        server.append(some(5, first=8))
        _, found = rest(reader, offset)
        assert found == list(range(8, 13))


def test_tasks_read_parts_of_their_own(tmp_path: Path) -> None:
    with JournalServer(tmp_path) as server:
        server.append(some(60_000), frame=2_000)
        reader = batch_of(server, partitions="3")
        shares = read(reader, reader.partitions())
        assert len(shares) == 3
        assert [number for share in shares for number in share] == list(range(1, 60_001))


def test_a_small_batch_takes_one_request_to_look_and_two_to_plan(
    ten: JournalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stream_of(ten)
    offset = reader.initialOffset()
    journal = reader._journal()
    assert isinstance(journal, RemoteJournal)
    offset, _ = rest(reader, offset)
    asked: list[str] = []
    before = journal._ask

    def ask(path: str, parameters: list[tuple[str, object]]) -> dict[str, Any]:
        asked.append(path)
        return before(path, parameters)

    monkeypatch.setattr(journal, "_ask", ask)
    reader.latestOffset(offset, reader.getDefaultReadLimit())
    assert asked == [""]
    reader.partitions({"sequence": 5}, offset)
    assert len(asked) <= 4
    assert asked[-1] == "/plan"


def test_it_reads_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = str(CERTIFICATES / "certificate.pem")
    tls = {"api.tls.certificate": certificate, "api.tls.private_key": str(CERTIFICATES / "private_key.pem")}
    with JournalServer(tmp_path, overrides=tls) as server:
        server.append(some(5))
        assert server.api.startswith("https://")
        with pytest.raises(RemoteError, match=r"certificate that is not trusted here .*SSL_CERT_FILE"):
            batch_of(server).partitions()
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        assert sequences(batch_of(server)) == [1, 2, 3, 4, 5]


# -- rights -----------------------------------------------------------------------------------------------------------


def test_a_token_shows_its_own_entities_only(ten: JournalServer) -> None:
    assert sequences(batch_of(ten, token=NARROW_TOKEN)) == [1, 3, 5, 7, 9]
    assert sequences(batch_of(ten, token=NARROW_TOKEN, entities="item-*")) == [1, 3, 5, 7, 9]
    with pytest.raises(TokenRefused) as refused:
        batch_of(ten, token=NARROW_TOKEN, entities="item-2").partitions()
    assert str(refused.value) == (
        f"the server {ten.api} refused the token: the reader narrow has no right to read item-2; its entities are "
        "item-1, item-3*"
    )


def test_a_wrong_token_is_refused_at_once_and_never_shown(ten: JournalServer) -> None:
    with pytest.raises(TokenRefused) as refused:
        batch_of(ten, token=GONE).partitions()
    assert str(refused.value) == f"the server {ten.api} refused the token: the token is not known"
    reader = batch_of(ten, token=GONE)
    assert GONE not in repr(reader._options)
    ok = batch_of(ten).partitions()
    assert TOKEN not in repr(ok)


def test_a_token_that_expires_in_the_middle_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage, "STEP", 10)
    expires = time.time() + 3600
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
    readers = f'[journal.readers.short]\ntoken = "{TOKEN}"\nentities = ["*"]\nexpires = "{moment}"\n'
    with JournalServer(tmp_path, readers) as server:
        server.append(some(100), frame=10)
        reader = batch_of(server)
        shares = reader.partitions()
        batches = reader.read(shares[0])
        next(batches)
        server.reading._clock = server.reading._readers._clock = lambda: expires
        with pytest.raises(TokenRefused, match="refused the token: the token of the reader short expired at 20"):
            list(batches)
        with pytest.raises(TokenRefused, match="expired"):
            stream_of(server).initialOffset()


def test_a_new_token_in_the_file_is_used_by_the_next_request(tmp_path: Path) -> None:
    there, here = tmp_path / "tokens", tmp_path / "token"
    there.write_text("the-first-of-two-tokens\n")
    here.write_text("the-first-of-two-tokens\n")
    readers = f'[journal.readers.one]\ntoken_file = "{there}"\nentities = ["*"]\n'
    with JournalServer(tmp_path, readers) as server:
        server.append(some(5))
        given = {"server": server.api, "tokenFile": str(here)}
        reader = JournalSource(given).streamReader(EVENTS)
        assert isinstance(reader, SparkJournalStreamReader)
        offset, found = rest(reader, reader.initialOffset())
        assert found == [1, 2, 3, 4, 5]
        there.write_text("the-second-of-two-tokens\n")
        with pytest.raises(TokenRefused):
            reader.latestOffset(offset, reader.getDefaultReadLimit())
        here.write_text("the-second-of-two-tokens\n")
        server.append(some(2, first=6))
        shares = reader.partitions(offset, reader.latestOffset(offset, reader.getDefaultReadLimit()))
        # A worker of another machine has no such file.
        here.unlink()
        assert read(reader, shares) == [[6, 7]]


# -- another journal ------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_another_journal_is_refused(ten: JournalServer, tmp_path: Path) -> None:
    with JournalServer(tmp_path) as other:
        other.append(some(10))
        offset = stream_of(other).reportLatestOffset()
    reader = stream_of(ten)
    with pytest.raises(BadOption) as refused:
        reader.latestOffset(offset, reader.getDefaultReadLimit())
    assert str(refused.value) == (
        f"the checkpoint was made with another segment for sequence 10 than the journal of {ten.api} has: it is "
        "another journal, or an older copy of it; start with a new checkpoint"
    )
    with pytest.raises(BadOption, match=f"knows sequence 11, but the journal of {ten.api} ends at 10: it is another"):
        reader.partitions({"sequence": 3}, {"sequence": 11})


def test_a_journal_that_is_exchanged_between_plan_and_read_is_refused(tmp_path: Path) -> None:
    with JournalServer(tmp_path / "one") as server:
        server.append(some(10))
        port = server.api_port
        reader = batch_of(server)
        shares = reader.partitions()
    with JournalServer(tmp_path / "two", port=port) as other:
        other.append(some(20))
        with pytest.raises(BadOption, match=r"another segment for sequence .* it is another journal, or an older copy"):
            list(reader.read(shares[0]))


# -- what retention drops -------------------------------------------------------------------------------------------


def test_what_retention_dropped_stops_the_query_or_not_as_it_says(tmp_path: Path) -> None:
    with JournalServer(tmp_path, overrides={"journal.segment_bytes": 65_536}) as server:
        server.append(some(5_000), frame=100)
        server.journal.retain(Retention(None, 1), 5_000)
        begin = {"sequence": 0}
        reader = stream_of(server)
        end = reader.latestOffset(begin, reader.getDefaultReadLimit())
        with pytest.raises(Expired, match=r"sequence 1 was dropped by retention.* onExpired") as told:
            reader.partitions(begin, end)
        going_on = stream_of(server, onExpired="earliest")
        end, found = rest(going_on, begin)
        assert found == list(range(told.value.earliest, 5_001))


def test_damage_is_told_as_that_of_a_directory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = make_journal(tmp_path / "data" / "journal", [("a", "update", f"value-{n}-") for n in range(1, 31)], frame=10)
    damage(path, 15)
    notes = tmp_path / "notes"
    with JournalServer(tmp_path) as server:
        reader = stream_of(server, damageReports=str(notes))
        _, numbers = rest(reader, reader.initialOffset())
        assert numbers == [*range(1, 11), *range(21, 31)]
        said = capfd.readouterr().err
        assert said.count(f"penstock source: damaged: {server.api}/") == 1
        assert "records 11 to 20 missing" in said
        assert [(note.first, note.last) for note in reports.told(notes)] == [(11, 20)]


# -- servers that are away ------------------------------------------------------------------------------------------


class Pauses:
    """A clock that stands still but for sleeping."""

    def __init__(self, then: Callable[[int], None] = lambda count: None) -> None:
        self.now = 0.0
        self.count = 0
        self._then = then

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.count += 1
        self._then(self.count)


def remote_journal(server: str, pauses: Pauses, retry: float = 300.0) -> RemoteJournal:
    return RemoteJournal(
        RemoteJournalAddress(server, TOKEN, retry_seconds=retry), clock=pauses.clock, sleep=pauses.sleep
    )


def test_a_server_that_is_away_is_waited_for_and_then_named() -> None:
    server = f"http://127.0.0.1:{closed_port()}"
    pauses = Pauses()
    with pytest.raises(JournalUnreachable) as gone:
        remote_journal(server, pauses, 60).poll()
    assert str(gone.value) == f"the server {server} cannot be reached: Connection refused (tried for 60 s)"
    assert 50 < pauses.now <= 60


def test_a_server_that_comes_back_is_gone_on_with(tmp_path: Path) -> None:
    port = closed_port()
    server = JournalServer(tmp_path, port=port)

    def come_back(count: int) -> None:
        if count == 3:
            server.__enter__()

    pauses = Pauses(come_back)
    try:
        assert remote_journal(f"http://127.0.0.1:{port}", pauses).poll() == 0
    finally:
        server.__exit__(None, None, None)
    assert pauses.count == 3


def test_a_server_that_restarts_in_the_middle_of_a_range_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage, "STEP", 10)
    port = closed_port()
    make_journal(tmp_path / "data" / "journal", some(1_000), frame=10)
    servers = [JournalServer(tmp_path, port=port) for _ in range(4)]
    servers[0].__enter__()
    pauses = Pauses()
    journal = remote_journal(f"http://127.0.0.1:{port}", pauses)
    parts = [part for share in journal.plan(1, 1_001, 1) for part in share]
    found: list[int] = []
    turn = 0
    for table in journal.read_slices(parts):
        found += table.column("sequence").to_pylist()
        if turn < 3 and len(found) > 200 * (turn + 1):
            servers[turn].stop()
            turn += 1
            servers[turn].__enter__()
    servers[turn].stop()
    assert found == list(range(1, 1_001))


@pytest.mark.parametrize("after", [0, 1, 100, 333, 1_000, 4_000, 9_000])
def test_a_connection_that_is_cut_at_any_byte_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(passage, "STEP", 50)
    with JournalServer(tmp_path) as server:
        server.append(some(1_000), frame=25)
        with CuttingRelay(server.api_port, after) as relay:
            journal = remote_journal(f"http://127.0.0.1:{relay.port}", Pauses())
            parts = [part for share in journal.plan(1, 1_001, 1) for part in share]
            relay.arm(3)
            found = [n for table in journal.read_slices(parts) for n in table.column("sequence").to_pylist()]
        assert found == list(range(1, 1_001))
        assert relay.cuts == 3


class CuttingRelay:
    """Passes bytes on; once armed, cuts the next connections after so many bytes of the answer."""

    def __init__(self, port: int, after: int) -> None:
        self._target = port
        self._after = after
        self.cuts = self._left = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def arm(self, times: int) -> None:
        self._left = times

    def __enter__(self) -> CuttingRelay:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(peer,), daemon=True).start()

    def _relay(self, peer: socket.socket) -> None:
        """One request and its answer after another."""
        with peer, socket.create_connection(("127.0.0.1", self._target)) as server:
            threading.Thread(target=_copy, args=(server, peer, self), daemon=True).start()
            while data := peer.recv(65_536):
                server.sendall(data)

    def budget(self) -> int | None:
        if self.cuts >= self._left:
            return None
        return self._after


def _copy(server: socket.socket, peer: socket.socket, relay: CuttingRelay) -> None:
    passed = 0
    try:
        while data := server.recv(65_536):
            limit = relay.budget()
            if limit is not None and passed + len(data) > limit:
                peer.sendall(data[: max(0, limit - passed)])
                relay.cuts += 1
                peer.shutdown(socket.SHUT_RDWR)
                return
            passed += len(data) if limit is not None else 0
            peer.sendall(data)
    except OSError:
        return


def test_a_busy_server_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.services.readers import routes

    with JournalServer(tmp_path) as server:
        server.append(some(10))
        monkeypatch.setattr(routes, "MAX_STREAMS", 0)
        pauses = Pauses(lambda count: monkeypatch.setattr(routes, "MAX_STREAMS", 16) if count == 2 else None)
        journal = remote_journal(server.api, pauses)
        parts = [part for share in journal.plan(1, 11, 1) for part in share]
        assert sum(table.num_rows for table in journal.read_slices(parts)) == 10
        assert pauses.now == 2.0


def test_a_server_whose_journal_is_not_served_is_named(tmp_path: Path) -> None:
    with JournalServer(tmp_path, readers="") as server, pytest.raises(RemoteError) as refused:
        batch_of(server).partitions()
    assert str(refused.value) == (
        f"the server {server.api} does not serve its journal; [journal.readers] of its configuration does"
    )


# -- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"server": "ftp://x", "token": TOKEN}, "server is 'ftp://x'; expected an address such as"),
        (
            {"server": f"http://u:{TOKEN}@host", "token": TOKEN},
            "server is 'http://***@host'; a token is an option of its own",
        ),
        ({"server": "http://h", "path": "/x"}, "options path and server are both given, /x and http://h; expected one"),
        ({"server": "http://h", "token": "a\nb"}, "token has characters that cannot stand in a header, or is empty"),
        ({"server": "http://h", "token": TOKEN, "tokenFile": "/x"}, "token and tokenFile are both given"),
        ({"server": "http://h", "tokenFile": "/no/such"}, "tokenFile is '/no/such', which cannot be read: No such"),
        (
            {"server": "http://h", "retryTimeoutSeconds": "soon"},
            "option retryTimeoutSeconds is 'soon'; it must be a whole number from 0 to 86400",
        ),
        ({"path": "/x", "token": TOKEN}, "option token is given without server"),
        ({}, "option path is missing; it names the journal's directory"),
    ],
)
def test_wrong_options_are_named_without_the_token(given: dict[str, str], problem: str) -> None:
    with pytest.raises(BadOption) as refused:
        JournalSource(given).reader(EVENTS)
    assert str(refused.value).startswith(problem)
    assert TOKEN not in str(refused.value)


def test_reader_and_partition_travel_without_connection(ten: JournalServer) -> None:
    reader = stream_of(ten)
    shares = reader.partitions({"sequence": 0}, reader.reportLatestOffset())
    there = pickle.loads(pickle.dumps(reader))
    assert there._reader is None
    assert read(there, shares) == [list(range(1, 11))]
